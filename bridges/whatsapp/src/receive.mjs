/** From what Baileys decrypts or reports to the record that goes into the spool. */
import { randomUUID } from 'node:crypto';
import { cleanMessage, decodeMessageNode, isLidUser, proto } from '@whiskeysockets/baileys';
import { isChatMessage } from './translate.mjs';

/**
 * The record of a decrypted stanza, or null if it is no message of a chat.
 * @param {object} stanza
 * @param {object} message the decoded proto.Message
 * @param {Uint8Array} bytes the same, encoded
 * @param {{id: string, lid?: string, name?: string}} me
 * @param {object} repository Baileys' Signal repository, which knows the telephone numbers of LIDs
 * @returns {Promise<import('./spool.mjs').MessageRecord | null>}
 */
export async function recordOfStanza(stanza, message, bytes, me, repository) {
  const { fullMessage } = decodeMessageNode(stanza, me.id, me.lid ?? '');
  cleanMessage(fullMessage, me.id, me.lid ?? '');
  if (!isWanted(message, fullMessage.key)) return null;
  const key = await withTelephoneNumber(fullMessage.key, repository);
  return makeRecord({ key, t: fullMessage.messageTimestamp, pushName: fullMessage.pushName, me, bytes });
}

/**
 * The record of a message that Baileys reports without having decrypted it by our repository: what the phone sent
 * again at our request. Null if it is no message of a chat.
 * @param {object} message a WAMessage
 * @param {object} me
 * @param {object} repository
 */
export async function recordOfReport(message, me, repository) {
  if (!message?.message || !message.key || !isWanted(message.message, message.key)) return null;
  const key = await withTelephoneNumber(message.key, repository);
  const bytes = proto.Message.encode(message.message).finish();
  return makeRecord({ key, t: Number(message.messageTimestamp), pushName: message.pushName, me, bytes });
}

/** A message that cannot even be looked at is kept, to be put aside with its fault. */
function isWanted(message, key) {
  try {
    return isChatMessage(message, key);
  } catch {
    return true;
  }
}

async function withTelephoneNumber(key, repository) {
  const known = { ...key };
  for (const [name, alternative] of [['remoteJid', 'remoteJidAlt'], ['participant', 'participantAlt']]) {
    if (!isLidUser(known[name]) || known[alternative]) continue;
    known[alternative] = (await repository.lidMapping.getPNForLID(known[name])) ?? undefined;
  }
  return known;
}

function makeRecord({ key, t, pushName, me, bytes }) {
  const { remoteJid, remoteJidAlt, fromMe, id, participant, participantAlt } = key;
  return {
    key: {
      remoteJid,
      remoteJidAlt,
      fromMe: fromMe === true,
      id,
      participant: participant || undefined,
      participantAlt,
    },
    t: Math.floor(Number.isFinite(t) && t > 0 ? t : Date.now() / 1000),
    push_name: pushName ?? null,
    me: { id: me.id, lid: me.lid, name: me.name },
    message: Buffer.from(bytes).toString('base64'),
    guid: randomUUID(),
  };
}
