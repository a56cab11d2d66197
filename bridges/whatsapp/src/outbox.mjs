/**
 * Sending once. A send has an id of the caller; the WhatsApp message id is made from it, and each step is on disk
 * before the next: `sending`, then the message, then `sent`. A repetition of what was sent sends nothing; one of what
 * a crash left as `sending` sends again under the same message id, which WhatsApp takes for the same message.
 */
import { createHash } from 'node:crypto';
import { readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { BridgeError } from './bridge_error.mjs';
import { openFolder, writeDurably } from './durable_file.mjs';
import { timing } from './timing.mjs';

const DAY = 24 * 3600 * 1000;

/**
 * The WhatsApp message id of a send, in the form that WhatsApp Web gives its own.
 * @param {string} botId
 * @param {string} sendId
 */
export function messageId(botId, sendId) {
  const digest = createHash('sha256').update(JSON.stringify([botId, sendId])).digest('hex');
  return `3EB0${digest.slice(0, 18).toUpperCase()}`;
}

export class Outbox {
  #folder;
  #botId;
  /** @type {Map<string, Promise<object>>} sends under way, by message id */
  #underWay = new Map();

  constructor(folder, botId) {
    this.#folder = folder;
    this.#botId = botId;
  }

  /** @param {string} folder @param {string} botId */
  static async open(folder, botId) {
    const outbox = new Outbox(folder, botId);
    await outbox.#forgetOld(await openFolder(folder));
    return outbox;
  }

  /**
   * @param {{sendId: string, recipient: string, text: string}} request
   * @param {(messageId: string) => Promise<void>} deliver sends under this id; resolves when WhatsApp has it
   * @returns {Promise<{provider_message_id: string, repeated: boolean}>}
   */
  async send(request, deliver) {
    const id = messageId(this.#botId, request.sendId);
    const other = this.#underWay.get(id);
    if (other) {
      checkSame(await this.#read(id), request);
      await other;
      return { provider_message_id: id, repeated: true };
    }
    const work = this.#send(id, request, deliver);
    this.#underWay.set(id, work);
    try {
      return await work;
    } finally {
      this.#underWay.delete(id);
    }
  }

  /** The text of a message that was sent: a recipient that could not decrypt it asks again. @param {string} id */
  async textOf(id) {
    return (await this.#read(id))?.text ?? null;
  }

  async #send(id, request, deliver) {
    const entry = await this.#read(id);
    checkSame(entry, request);
    if (entry?.state === 'sent') return { provider_message_id: id, repeated: true };
    const { recipient, text } = request;
    if (!entry) await this.#write(id, { state: 'sending', recipient, text });
    await deliver(id);
    await this.#write(id, { state: 'sent', recipient, text });
    return { provider_message_id: id, repeated: false };
  }

  async #read(id) {
    if (!/^[0-9A-F]{1,64}$/.test(id)) return null;
    try {
      return JSON.parse(await readFile(this.#path(id), 'utf8'));
    } catch (error) {
      if (error.code === 'ENOENT') return null;
      throw error;
    }
  }

  #write(id, entry) {
    return writeDurably(this.#path(id), JSON.stringify(entry));
  }

  #path(id) {
    return join(this.#folder, `${id}.json`);
  }

  async #forgetOld(names) {
    const oldest = Date.now() - timing.sentMemoryDays * DAY;
    for (const name of names) {
      const file = join(this.#folder, name);
      if ((await stat(file)).mtimeMs < oldest) await rm(file, { force: true });
    }
  }
}

function checkSame(entry, { recipient, text }) {
  if (entry && (entry.recipient !== recipient || entry.text !== text)) {
    throw new BridgeError(409, 'send_id_reused', 'this send_id was used for another message');
  }
}
