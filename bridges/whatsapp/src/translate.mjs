/** From a message of WhatsApp to the payload of protocol.md. Pure: the same record gives the same payload. */
import {
  areJidsSameUser,
  extractMessageContent,
  isJidBroadcast,
  isJidGroup,
  isJidNewsletter,
  isJidStatusBroadcast,
  isPnUser,
  jidNormalizedUser,
  proto,
} from '@whiskeysockets/baileys';
import { clean, textOf } from './describe.mjs';

const LONGEST_NAME = 255;
const LONGEST_SECONDS = 10_000_000;
const MIME_TYPE = /^[a-z0-9][\w.+-]*\/[a-z0-9][\w.+-]*(\s*;.*)?$/i;

/** Fields with a media file: what it is, what it is if the sender does not say. */
const MEDIA = {
  imageMessage: { kind: 'image', mimeType: 'image/jpeg' },
  videoMessage: { kind: 'video', mimeType: 'video/mp4' },
  ptvMessage: { kind: 'video', mimeType: 'video/mp4' },
  audioMessage: { kind: 'audio', mimeType: 'audio/ogg' },
  documentMessage: { kind: 'document', mimeType: 'application/octet-stream' },
  stickerMessage: { kind: 'sticker', mimeType: 'image/webp' },
};

/**
 * @typedef {object} FoundMedia
 * @property {string} kind
 * @property {string} mimeType
 * @property {import('./download.mjs').Media} media
 */

/**
 * The payload, with its media still to be had; null for what is no message of a chat.
 * @param {import('./spool.mjs').MessageRecord} record
 * @param {(group: string) => string | null} groupName
 * @returns {{payload: object, media: FoundMedia | null} | null}
 */
export function translate(record, groupName) {
  const message = proto.Message.decode(Buffer.from(record.message, 'base64'));
  const found = contentOf(message, record.key);
  if (!found) return null;
  const { text, media, fileName } = found;
  const payload = {
    provider_message_id: record.key.id,
    message: text,
    originating_time: record.t,
    ...whoAndWhere(record, groupName),
    media_processing_id: media ? record.guid : null,
    mime_type: media ? (record.outcome?.mime_type ?? media.mimeType) : null,
    original_filename: fileName,
    media_seconds: media ? secondsOf(media.media) : null,
    addressed: isAddressed(record, message),
    _quota_exceeded: record.outcome?.quota_exceeded ?? false,
  };
  return { payload, media };
}

/**
 * Whether a decrypted message belongs into the spool: most of what arrives besides are keys, receipts and reactions.
 * @param {object} message a proto.Message
 * @param {object} key
 */
export function isChatMessage(message, key) {
  return contentOf(message, key) !== null;
}

function contentOf(message, key) {
  const chat = key.remoteJid;
  if (!chat || !key.id || isJidStatusBroadcast(chat) || isJidNewsletter(chat)) return null;
  const { content, isEdit } = unwrap(message);
  if (!content) return null;
  const media = isEdit ? null : mediaOf(content);
  const caption = captionOf(content);
  const text = media || (isEdit && caption) ? clean(caption) : textOf(content);
  if (text === null) return null;
  return { text: isEdit ? `[Edited] ${text}` : text, media, fileName: fileNameOf(content) };
}

/** Takes the wrappers off: sent by another device of ours, disappearing, seen once, edited, animated sticker. */
function unwrap(message) {
  let content = extractMessageContent(message.deviceSentMessage?.message ?? message);
  const { MESSAGE_EDIT } = proto.Message.ProtocolMessage.Type;
  const isEdit = content?.protocolMessage?.type === MESSAGE_EDIT;
  if (isEdit) content = extractMessageContent(content.protocolMessage.editedMessage);
  const inner = content?.lottieStickerMessage ?? content?.pollCreationMessageV4 ?? content?.botInvokeMessage;
  if (inner?.message) content = extractMessageContent(inner.message);
  return { content, isEdit };
}

function mediaField(content) {
  return Object.keys(MEDIA).find((name) => content[name]);
}

function mediaOf(content) {
  const name = mediaField(content);
  if (!name) return null;
  const { kind, mimeType } = MEDIA[name];
  const claimed = content[name].mimetype ?? '';
  const isSensible = claimed.length <= LONGEST_NAME && MIME_TYPE.test(claimed);
  return { kind, mimeType: isSensible ? clean(claimed) : mimeType, media: content[name] };
}

function captionOf(content) {
  return content[mediaField(content)]?.caption ?? '';
}

function fileNameOf(content) {
  const name = content.documentMessage?.fileName || content.documentMessage?.title;
  return name ? clean(name).slice(0, LONGEST_NAME).toWellFormed() : null;
}

function whoAndWhere(record, groupName) {
  const { key, me } = record;
  const account = person([me.id, me.lid]);
  const writer = writerOf(record, account);
  const group = isJidGroup(key.remoteJid)
    ? { identifier: key.remoteJid, display_name: groupName(key.remoteJid) }
    : null;
  const chat = group ? { identifier: group.identifier, alternates: [] } : otherPerson(record);
  const writerName = (key.fromMe ? me.name : record.push_name) || null;
  const sender = key.fromMe ? account : chat;
  return {
    direction: key.fromMe ? 'outgoing' : 'incoming',
    sender: sender.identifier,
    alternate_identifiers: sender.alternates,
    display_name: cleanName(group && !key.fromMe ? group.display_name : writerName),
    recipient_id: key.fromMe ? chat.identifier : null,
    group: group && { ...group, display_name: cleanName(group.display_name) },
    actual_sender: group && {
      identifier: writer.identifier,
      display_name: cleanName(writerName),
      alternate_identifiers: writer.alternates,
    },
  };
}

/** Whether it is meant for the account: in a group, it mentions the account or replies to a message of it. */
function isAddressed({ key, me }, message) {
  if (!isJidGroup(key.remoteJid) || key.fromMe) return true;
  const { content } = unwrap(message);
  const isMine = (jid) => areJidsSameUser(jid, me.id) || (Boolean(me.lid) && areJidsSameUser(jid, me.lid));
  return Object.values(content ?? {})
    .map((part) => part?.contextInfo)
    .filter(Boolean)
    .some(({ mentionedJid, participant }) => [...(mentionedJid ?? []), participant].filter(Boolean).some(isMine));
}

/** How long it plays, as the sender claims. */
function secondsOf({ seconds }) {
  return Number.isInteger(seconds) && seconds > 0 && seconds < LONGEST_SECONDS ? seconds : null;
}

function writerOf({ key }, account) {
  if (key.fromMe) return account;
  return person([key.participant, key.participantAlt, key.participant ? null : key.remoteJid]);
}

/** The other side of a chat between two. A list of recipients is seen by each as a chat with the writer. */
function otherPerson({ key, me }) {
  if (isJidBroadcast(key.remoteJid)) return person([key.participant, key.participantAlt ?? key.remoteJidAlt]);
  const isMine = (jid) => areJidsSameUser(jid, me.id) || areJidsSameUser(jid, me.lid);
  // In what the owner wrote, the alternative may be his own.
  const isOfOther = key.remoteJidAlt && (isMine(key.remoteJid) || !isMine(key.remoteJidAlt));
  return person([key.remoteJid, isOfOther ? key.remoteJidAlt : null]);
}

/** One person by all his ids: by telephone number where it is known. */
function person(jids) {
  const ids = [...new Set(jids.filter(Boolean).map((jid) => jidNormalizedUser(jid)))];
  const identifier = ids.find((id) => isPnUser(id)) ?? ids[0];
  return { identifier, alternates: ids.filter((id) => id !== identifier) };
}

function cleanName(name) {
  return name ? clean(name, LONGEST_NAME) : null;
}
