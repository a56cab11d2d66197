/**
 * The spool of one bot: every message from the moment it is decrypted until mediamill has it, a file each.
 *
 *   put -> (media: settle, once the download has ended well or badly) -> forget, on mediamill's word
 *                                                                     -> refuse, moved into refused/
 *
 * Names sort by arrival. Only the names and what is needed to choose stay in memory; the text is read when it is sent.
 */
import { readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { openFolder, syncFolder, writeDurably } from './durable_file.mjs';
import { Seen } from './seen.mjs';

const NAME = /^(\d{18})\.json$/;

/**
 * @typedef {object} MessageRecord what is known of a message, in a form that JSON keeps
 * @property {{remoteJid: string, remoteJidAlt?: string, fromMe: boolean, id: string, participant?: string,
 *   participantAlt?: string}} key
 * @property {number} t seconds since 1970
 * @property {string | null} push_name
 * @property {{id: string, lid?: string, name?: string}} me the account itself
 * @property {string} message a proto.Message, base64
 * @property {string} guid the name of its media file, should it have one
 * @property {{mime_type: string, quota_exceeded: boolean}} [outcome] how the download ended
 */

export class Spool {
  #folder;
  #refused;
  #log;
  #seen;
  #lastId = 0;
  /** @type {Map<string, string>} id in the spool -> name of the message */
  #names = new Map();
  /** @type {Map<string, Promise<string>>} name of the message -> its write, under way or done */
  #writes = new Map();

  constructor(folder, log) {
    this.#folder = folder;
    this.#refused = join(folder, 'refused');
    this.#log = log;
  }

  /**
   * @param {string} folder
   * @param {import('pino').Logger} log
   */
  static async open(folder, log) {
    const spool = new Spool(folder, log);
    const files = await openFolder(folder);
    await openFolder(spool.#refused);
    spool.#seen = await Seen.open(join(folder, 'seen.txt'));
    for (const file of files.sort()) {
      const id = NAME.exec(file)?.[1];
      if (id) await spool.#load(id);
    }
    return spool;
  }

  get size() {
    return this.#names.size;
  }

  /** Ids of all messages, oldest first. */
  ids() {
    return [...this.#names.keys()];
  }

  /**
   * Keeps a message. Its id, or null if it was taken before; durable when this returns, in either case.
   * @param {MessageRecord} record
   */
  async put(record) {
    const name = messageName(record.key);
    const earlier = this.#writes.get(name);
    if (earlier) {
      await earlier;
      return null;
    }
    if (this.#seen.has(name)) return null;
    const id = this.#nextId();
    const write = writeDurably(this.#path(id), JSON.stringify(record)).then(() => id);
    this.#writes.set(name, write);
    try {
      await write;
    } catch (error) {
      this.#writes.delete(name);
      throw error;
    }
    this.#names.set(id, name);
    return id;
  }

  /** @param {string} id @returns {Promise<MessageRecord>} */
  async read(id) {
    return JSON.parse(await readFile(this.#path(id), 'utf8'));
  }

  /**
   * Writes down how the download of a message ended, before mediamill is told.
   * @param {string} id
   * @param {MessageRecord} record
   * @param {MessageRecord['outcome']} outcome
   */
  async settle(id, record, outcome) {
    await writeDurably(this.#path(id), JSON.stringify({ ...record, outcome }));
  }

  /** @param {string} id */
  async forget(id) {
    const name = this.#names.get(id);
    if (name === undefined) return;
    await this.#seen.add(name);
    await rm(this.#path(id), { force: true });
    this.#drop(id, name);
  }

  /**
   * Puts a message aside for good, with the reason beside it.
   * @param {string} id
   * @param {unknown} reason
   */
  async refuse(id, reason) {
    const name = this.#names.get(id);
    if (name === undefined) return;
    await writeDurably(join(this.#refused, `${id}.reason.json`), JSON.stringify(reason));
    await rename(this.#path(id), join(this.#refused, `${id}.json`));
    await syncFolder(this.#refused);
    await this.#seen.add(name);
    this.#drop(id, name);
  }

  #drop(id, name) {
    this.#names.delete(id);
    this.#writes.delete(name);
  }

  async #load(id) {
    this.#lastId = Math.max(this.#lastId, Number(id));
    try {
      const name = messageName((await this.read(id)).key);
      this.#names.set(id, name);
      if (this.#seen.has(name)) return await this.forget(id);
      this.#writes.set(name, Promise.resolve(id));
    } catch (error) {
      this.#log.error({ spool_id: id, fault: error.message }, 'an entry cannot be read and was put aside');
      await rename(this.#path(id), join(this.#refused, `${id}.damaged`));
    }
  }

  /** Microseconds since 1970, and always more than the last. */
  #nextId() {
    this.#lastId = Math.max(this.#lastId + 1, Date.now() * 1000);
    return String(this.#lastId).padStart(18, '0');
  }

  #path(id) {
    return join(this.#folder, `${id}.json`);
  }
}

/** One message is one id by one writer in one chat: nobody can take the id of somebody else's message. */
function messageName(key) {
  return JSON.stringify([key.remoteJid, key.participant ?? '', key.fromMe === true, key.id]);
}
