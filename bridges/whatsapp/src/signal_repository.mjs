/**
 * Receiving without loss, around Baileys' own Signal repository.
 *
 * Baileys decrypts a message, stores the advanced Signal session, sends the receipt and only then tells us. A process
 * killed in between would have lost the message: the server has its receipt, and the session can decrypt it no second
 * time. So the order is changed here. Baileys' key store has transactions, and an inner one joins the outer: we open
 * one around the decryption and write the plaintext to the spool inside it. Therefore
 *   1. decrypt (the new session state is only in memory),
 *   2. the plaintext is in the spool, fsynced,
 *   3. the transaction commits: the new session state reaches the disk,
 *   4. Baileys gets the plaintext, and sends the receipt.
 * Killed before 2: the old state is on disk and no receipt was sent, the server delivers again. After 2: it is in the
 * spool; should the server deliver again, the spool knows the id.
 *
 * A sender key that came along is taken over inside the same transaction, since the message that it is for may follow
 * in the same stanza, and the part that brought the key can be decrypted only once.
 */
import { AsyncResource } from 'node:async_hooks';
import { randomUUID } from 'node:crypto';
import { DEFAULT_CONNECTION_CONFIG, isPnUser, proto, unpadRandomMax16 } from '@whiskeysockets/baileys';
import { exclusively } from './lock.mjs';

/**
 * @param {object} options
 * @param {WeakMap<Uint8Array, object>} options.stanzas the stanza that each ciphertext came in
 * @param {(stanza: object, message: object, bytes: Uint8Array, repository: object) => Promise<string | null>} options.keep
 *   writes a message to the spool; its id there, or null when there is nothing to keep
 * @param {(id: string) => void} options.kept told after the commit
 */
export function makeDurableRepository({ stanzas, keep, kept }) {
  return (auth, logger, findLids) => {
    const inner = DEFAULT_CONNECTION_CONFIG.makeSignalRepository(auth, logger, findLids);
    const takenKeys = new Set();

    // Whatever changes the session with somebody is one transaction of its own, from reading the old state to writing
    // the new one, and nothing else of this account is at that session meanwhile. Baileys sends inside a long
    // transaction that would write an old state over a newer one, and recipients could not read what is sent while a
    // message of theirs comes in. Outside of that one, then.
    const account = randomUUID();
    const outside = new AsyncResource('signal session');
    async function atSession(jid, work) {
      const lid = isPnUser(jid) ? await inner.lidMapping.getLIDForPN(jid) : null; // they share a session
      const name = `${account} ${inner.jidToSignalProtocolAddress(lid ?? jid)}`;
      return exclusively(name, () => outside.runInAsyncScope(() => auth.keys.transaction(work, name)));
    }

    // libsignal queues work by address for the whole process and runs what waited in the async context of whoever
    // came first. The work would then see that one's transaction, or none, so there must never be a queue.
    const alone = (jid, work) => exclusively(`signal ${inner.jidToSignalProtocolAddress(jid)}`, work);

    /** `within` runs its work in a transaction: the plaintext is in the spool before the new state is on disk. */
    async function decrypt(ciphertext, within, work) {
      let id = null;
      try {
        return await within(async () => {
          const padded = await work();
          const stanza = stanzas.get(ciphertext);
          if (stanza) id = await keepPlaintext(stanza, padded);
          return padded;
        });
      } finally {
        if (id) kept(id);
      }
    }

    async function keepPlaintext(stanza, padded) {
      const opened = open(padded);
      if (!opened) return null;
      await takeSenderKey(stanza, opened.message);
      return keep(stanza, opened.message, opened.bytes, inner);
    }

    async function takeSenderKey(stanza, message) {
      const item = (message.deviceSentMessage?.message ?? message).senderKeyDistributionMessage;
      if (!item?.groupId || !item.axolotlSenderKeyDistributionMessage) return;
      const authorJid = stanza.attrs.participant || stanza.attrs.from;
      try {
        await inner.processSenderKeyDistributionMessage({ item, authorJid });
        if (takenKeys.size > 100) takenKeys.clear();
        takenKeys.add(keyName(authorJid, item));
      } catch (error) {
        logger.error({ err: error }, 'a sender key could not be taken over');
      }
    }

    return {
      ...inner,
      decryptMessage(request) {
        const within = (work) => atSession(request.jid, work);
        return decrypt(request.ciphertext, within, () => alone(request.jid, () => inner.decryptMessage(request)));
      },
      decryptGroupMessage(request) {
        const within = (work) => auth.keys.transaction(work, request.group);
        return decrypt(request.msg, within, () => inner.decryptGroupMessage(request));
      },
      encryptMessage: (request) => atSession(request.jid, () => alone(request.jid, () => inner.encryptMessage(request))),
      injectE2ESession: (request) =>
        atSession(request.jid, () => alone(request.jid, () => inner.injectE2ESession(request))),
      async processSenderKeyDistributionMessage(request) {
        // Baileys comes with the key that was just taken over: a second copy would only push older keys out.
        if (takenKeys.delete(keyName(request.authorJid, request.item))) return;
        await inner.processSenderKeyDistributionMessage(request);
      },
    };
  };
}

/** Bytes that are no message are left to Baileys, which asks the sender for the message again. */
function open(padded) {
  try {
    const bytes = unpadRandomMax16(padded);
    return { bytes, message: proto.Message.decode(bytes) };
  } catch {
    return null;
  }
}

function keyName(authorJid, item) {
  const key = Buffer.from(item.axolotlSenderKeyDistributionMessage ?? []).toString('base64');
  return `${authorJid} ${item.groupId} ${key}`;
}
