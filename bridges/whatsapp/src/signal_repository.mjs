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
import { DEFAULT_CONNECTION_CONFIG, proto, unpadRandomMax16 } from '@whiskeysockets/baileys';
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

    // libsignal queues work by address for the whole process and runs what waited in the async context of whoever
    // came first. The work would then see that one's transaction, or none, so there must never be a queue. (Always
    // the transaction first, then this lock.)
    const alone = (jid, work) => exclusively(`signal ${inner.jidToSignalProtocolAddress(jid)}`, work);
    const inTransaction = (jid, work) => auth.keys.transaction(() => alone(jid, work), jid);

    async function decrypt(lockName, ciphertext, work) {
      let id = null;
      try {
        return await auth.keys.transaction(async () => {
          const padded = await work();
          const stanza = stanzas.get(ciphertext);
          if (stanza) id = await keepPlaintext(stanza, padded);
          return padded;
        }, lockName);
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
        const work = () => alone(request.jid, () => inner.decryptMessage(request));
        return decrypt(request.jid, request.ciphertext, work);
      },
      decryptGroupMessage: (request) =>
        decrypt(request.group, request.msg, () => inner.decryptGroupMessage(request)),
      encryptMessage: (request) => inTransaction(request.jid, () => inner.encryptMessage(request)),
      injectE2ESession: (request) => inTransaction(request.jid, () => inner.injectE2ESession(request)),
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
