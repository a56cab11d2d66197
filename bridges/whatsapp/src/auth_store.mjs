/**
 * The WhatsApp session of one bot on disk: credentials and Signal keys, a file each.
 *
 * Every write is durable before it is reported. In one change the values are written before anything is removed: a
 * crash in between leaves a key too many, never one too few.
 */
import { createHash } from 'node:crypto';
import { readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { BufferJSON, initAuthCreds, proto } from '@whiskeysockets/baileys';
import { openFolder, replaceFile, syncFolder, writeDurably } from './durable_file.mjs';

const AT_ONCE = 32;

export class AuthStore {
  #folder;
  #log;
  /** Changes are made one after the other: two of the same key must not overtake each other. */
  #last = Promise.resolve();

  constructor(folder, log) {
    this.#folder = folder;
    this.#log = log;
    this.keys = this.#makeKeys();
  }

  /** The keys of one session; when it is forgotten, what still works with them writes nothing any more. */
  #makeKeys() {
    const keys = {
      get: (type, ids) => this.#get(type, ids),
      set: (changes) => this.#inTurn(async () => keys === this.keys && this.#set(changes)),
      clear: () => this.clear(),
    };
    return keys;
  }

  /**
   * @param {string} folder
   * @param {import('pino').Logger} log
   */
  static async open(folder, log) {
    const store = new AuthStore(folder, log);
    await openFolder(folder);
    store.creds = (await store.#read('creds.json')) ?? initAuthCreds();
    return store;
  }

  saveCreds() {
    return this.#inTurn(() =>
      writeDurably(join(this.#folder, 'creds.json'), JSON.stringify(this.creds, BufferJSON.replacer)),
    );
  }

  /** Waits for the changes that are under way. */
  settled() {
    return this.#last;
  }

  /** Forgets the session: the next connection pairs anew. */
  clear() {
    return this.#inTurn(async () => {
      await rm(this.#folder, { recursive: true, force: true });
      await openFolder(this.#folder);
      this.creds = initAuthCreds();
      this.keys = this.#makeKeys();
    });
  }

  #inTurn(work) {
    const result = this.#last.then(work);
    this.#last = result.catch(() => {});
    return result;
  }

  async #get(type, ids) {
    const found = await Promise.all(ids.map((id) => this.#read(fileName(type, id))));
    const values = {};
    ids.forEach((id, index) => {
      let value = found[index]?.value;
      if (value === undefined || value === null) return;
      if (type === 'app-state-sync-key') value = proto.Message.AppStateSyncKeyData.fromObject(value);
      values[id] = value;
    });
    return values;
  }

  async #set(changes) {
    const writes = [];
    const removals = [];
    for (const [type, values] of Object.entries(changes)) {
      for (const [id, value] of Object.entries(values ?? {})) {
        const file = join(this.#folder, fileName(type, id));
        if (value === null || value === undefined) removals.push(file);
        else writes.push([file, JSON.stringify({ id, value }, BufferJSON.replacer)]);
      }
    }
    for (let start = 0; start < writes.length; start += AT_ONCE) {
      await Promise.all(writes.slice(start, start + AT_ONCE).map(([file, text]) => replaceFile(file, text)));
    }
    if (writes.length) await syncFolder(this.#folder);
    await Promise.all(removals.map((file) => rm(file, { force: true })));
  }

  async #read(name) {
    const file = join(this.#folder, name);
    try {
      return JSON.parse(await readFile(file, 'utf8'), BufferJSON.reviver);
    } catch (error) {
      if (error.code === 'ENOENT') return null;
      if (!(error instanceof SyntaxError)) throw error;
      this.#log.error({ name }, 'a file of the session is damaged and was put aside');
      await rename(file, `${file}.damaged`);
      return null;
    }
  }
}

/** Ids hold strangers' numbers: the file is named by a hash of them. */
function fileName(type, id) {
  return `${type}-${createHash('sha256').update(id).digest('hex').slice(0, 40)}.json`;
}
