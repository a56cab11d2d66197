/**
 * The memory of messages that are done with, so that one delivered again is not taken twice. Bounded; a file that is
 * appended to and now and then rewritten. It need not survive a power failure: mediamill knows the ids as well.
 */
import { createHash } from 'node:crypto';
import { appendFile, readFile } from 'node:fs/promises';
import { writeDurably } from './durable_file.mjs';
import { timing } from './timing.mjs';

export class Seen {
  #file;
  #names = new Set();
  #lines = 0;
  #last = Promise.resolve();

  constructor(file) {
    this.#file = file;
  }

  /** @param {string} file */
  static async open(file) {
    const seen = new Seen(file);
    const text = await readFile(file, 'utf8').catch((error) => {
      if (error.code === 'ENOENT') return '';
      throw error;
    });
    for (const line of text.split('\n')) {
      if (line.length === 32) seen.#remember(line);
    }
    return seen;
  }

  /** @param {string} name */
  has(name) {
    return this.#names.has(digest(name));
  }

  /** @param {string} name */
  add(name) {
    this.#remember(digest(name));
    this.#last = this.#last.catch(() => {}).then(() => this.#write(digest(name)));
    return this.#last;
  }

  #remember(line) {
    this.#lines += 1;
    this.#names.delete(line);
    this.#names.add(line);
    if (this.#names.size > timing.seenMemory) this.#names.delete(this.#names.values().next().value);
  }

  async #write(line) {
    if (this.#lines <= 2 * timing.seenMemory) {
      // The leading line end closes a line that a crash cut short.
      await appendFile(this.#file, `\n${line}`, { mode: 0o600 });
      return;
    }
    this.#lines = this.#names.size;
    await writeDurably(this.#file, [...this.#names].join('\n'));
  }
}

function digest(name) {
  return createHash('sha256').update(name).digest('hex').slice(0, 32);
}
