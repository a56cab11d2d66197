/**
 * Messages as WhatsApp sends them, one of each kind. Their payloads are samples/<name>.json, which the Python tests
 * read too; `node test/support/sample_messages.mjs` writes them anew after a change of the contract.
 */
import { writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { proto } from '@whiskeysockets/baileys';
import { translate } from '../../src/translate.mjs';

export const SAMPLES = fileURLToPath(new URL('../../samples/', import.meta.url));
export const ME = { id: '491700000001:7@s.whatsapp.net', lid: '100000000000001:7@lid', name: 'Mill' };
export const ANN = '491709999999@s.whatsapp.net';
export const ANN_LID = '200000000000002@lid';
export const GROUP = '120363000000000001@g.us';
const GUID = '3f6c1b52-8a4e-4d0b-9a51-2f1d6c7e8b90';

const file = (mimetype, rest = {}) => ({
  mimetype,
  url: 'https://mmg.whatsapp.net/v/t62/abc?ccb=11',
  directPath: '/v/t62/abc?ccb=11',
  mediaKey: Buffer.alloc(32, 1),
  fileSha256: Buffer.alloc(32, 2),
  fileLength: 12_345,
  ...rest,
});
const vcard = 'BEGIN:VCARD\nVERSION:3.0\nFN:Cy Young\nTEL;type=CELL;waid=491701112222:+49 170 1112222\nEND:VCARD';
const poll = { name: 'Lunch?', options: [{ optionName: 'Soup' }, { optionName: 'Salad' }] };
const edit = (editedMessage) => ({
  protocolMessage: { type: 'MESSAGE_EDIT', key: { id: 'OLD' }, editedMessage, timestampMs: 1 },
});
const inGroup = { remoteJid: GROUP, participant: ANN_LID, participantAlt: ANN };
const byMe = { remoteJid: ANN_LID, remoteJidAlt: ANN, fromMe: true };
const corrupt = { mime_type: 'media_corrupt_video', quota_exceeded: false };

/** name -> message, and what of key and record is not as usual */
export const messages = {
  text: { message: { conversation: 'Good morning' } },
  text_extended: { message: { extendedTextMessage: { text: 'See https://example.org', title: 'Example' } } },
  text_disappearing: { message: { ephemeralMessage: { message: { conversation: 'soon gone' } } } },
  text_unicode: { message: { conversation: 'Grüße 👋🏽\nzweite Zeile \u202eabc' } },
  text_by_lid: { message: { conversation: 'who am I' }, key: { remoteJid: ANN_LID, remoteJidAlt: undefined } },
  text_by_lid_known: { message: { conversation: 'it is me' }, key: { remoteJid: ANN_LID, remoteJidAlt: ANN } },
  text_group: { message: { conversation: 'hello all' }, key: inGroup },
  text_group_mention: {
    message: {
      extendedTextMessage: { text: '@100000000000001 hello', contextInfo: { mentionedJid: ['100000000000001@lid'] } },
    },
    key: inGroup,
  },
  text_group_reply: {
    message: {
      extendedTextMessage: {
        text: 'and then?',
        contextInfo: {
          stanzaId: '3EB0AA',
          participant: '491700000001@s.whatsapp.net',
          quotedMessage: { conversation: 'Once upon a time' },
        },
      },
    },
    key: inGroup,
  },
  text_outgoing: {
    message: { deviceSentMessage: { destinationJid: ANN_LID, message: { conversation: 'I am on my way' } } },
    key: byMe,
  },
  text_outgoing_group: { message: { conversation: 'me too' }, key: { ...inGroup, participant: ME.lid, fromMe: true } },
  text_edited: { message: { editedMessage: { message: edit({ conversation: 'Good evening' }) } } },
  image: { message: { imageMessage: file('image/jpeg') } },
  image_caption: { message: { imageMessage: file('image/jpeg', { caption: 'Look at this' }) } },
  image_view_once: { message: { viewOnceMessageV2: { message: { imageMessage: file('image/jpeg') } } } },
  image_group: { message: { imageMessage: file('image/png', { caption: 'for all' }) }, key: inGroup },
  image_of_album: {
    message: {
      imageMessage: file('image/jpeg', { caption: 'first of three' }),
      messageContextInfo: {
        messageAssociation: { associationType: 'MEDIA_ALBUM', parentMessageKey: { id: 'ALBUM', remoteJid: ANN } },
      },
    },
  },
  video: { message: { videoMessage: file('video/mp4', { caption: 'our cat', seconds: 9 }) } },
  video_note: { message: { ptvMessage: file('video/mp4') } },
  voice_note: { message: { audioMessage: file('audio/ogg; codecs=opus', { ptt: true, seconds: 4 }) } },
  audio: { message: { audioMessage: file('audio/mpeg') } },
  document: { message: { documentMessage: file('application/pdf', { fileName: 'Invoice 7.pdf' }) } },
  document_caption: {
    message: {
      documentWithCaptionMessage: {
        message: { documentMessage: file('application/pdf', { fileName: 'a.pdf', caption: 'please read' }) },
      },
    },
  },
  document_strange_name: { message: { documentMessage: file('text/plain', { fileName: '../../etc/passwd' }) } },
  sticker: { message: { stickerMessage: file('image/webp') } },
  sticker_animated: { message: { stickerMessage: file('image/webp', { isAnimated: true }) } },
  sticker_lottie: {
    message: { lottieStickerMessage: { message: { stickerMessage: file('application/was', { isLottie: true }) } } },
  },
  corrupt_video: {
    message: { videoMessage: file('video/mp4', { caption: 'our cat' }) },
    record: { outcome: corrupt },
  },
  corrupt_quota: {
    message: { documentMessage: file('application/zip', { fileName: 'big.zip' }) },
    record: { outcome: { mime_type: 'media_corrupt_document', quota_exceeded: true } },
  },
  location: {
    message: { locationMessage: { degreesLatitude: 52.516275, degreesLongitude: 13.377704, name: 'Brandenburg Gate' } },
  },
  live_location: { message: { liveLocationMessage: { degreesLatitude: -1.5, degreesLongitude: 2, caption: 'here' } } },
  contact: { message: { contactMessage: { displayName: 'Cy Young', vcard } } },
  contacts: {
    message: { contactsArrayMessage: { displayName: '2 contacts', contacts: [{ displayName: 'Cy', vcard }, { displayName: 'Di' }] } },
  },
  poll: { message: { pollCreationMessageV3: poll } },
  event: { message: { eventMessage: { name: 'Party', startTime: 1_800_000_000, description: 'bring\nsalad' } } },
  group_invitation: { message: { groupInviteMessage: { groupJid: GROUP, groupName: 'Friends', inviteCode: 'x' } } },
};

/** The record that the spool would hold. */
export function recordOf({ message, key = {}, record = {} }) {
  return {
    key: { remoteJid: ANN, remoteJidAlt: ANN_LID, fromMe: false, id: '3EB0C0FFEE0123456789AB', ...key },
    t: 1_794_800_000,
    push_name: 'Ann',
    me: ME,
    message: Buffer.from(proto.Message.encode(proto.Message.fromObject(message)).finish()).toString('base64'),
    guid: GUID,
    ...record,
  };
}

export const groupName = (group) => (group === GROUP ? 'Friends' : null);
export const payloadOf = (sample) => translate(recordOf(sample), groupName)?.payload;

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const [name, sample] of Object.entries(messages)) {
    await writeFile(`${SAMPLES}${name}.json`, `${JSON.stringify(payloadOf(sample), null, 2)}\n`);
  }
}
