/** The names of a bot's groups, kept over restarts: messages that waited arrive before WhatsApp can be asked. */
import { readFile } from 'node:fs/promises';
import { writeDurably } from './durable_file.mjs';
import { pause, timing } from './timing.mjs';

export class GroupNames {
  #file;
  /** @type {Map<string, string>} */
  #names = new Map();
  #saving = Promise.resolve();
  #isDirty = false;
  /** @type {Map<string, Promise<void>>} groups that WhatsApp was asked about */
  #asked = new Map();

  constructor(file) {
    this.#file = file;
  }

  /** @param {string} file */
  static async open(file) {
    const names = new GroupNames(file);
    try {
      names.#names = new Map(JSON.parse(await readFile(file, 'utf8')));
    } catch {
      // Without the file, or with a damaged one, WhatsApp is asked.
    }
    return names;
  }

  /** @param {string} group */
  get(group) {
    return this.#names.get(group) ?? null;
  }

  /**
   * Waits until a group's name is known, or not to be had for now. Who asks at the same time waits for the same.
   * @param {string} group
   * @param {(group: string) => Promise<{id?: string, subject?: string}>} ask
   */
  async ensure(group, ask) {
    if (this.#names.has(group)) return;
    if (!this.#asked.has(group)) {
      if (this.#asked.size > timing.groupNamesAtMost) this.#asked.clear();
      this.#asked.set(group, this.#ask(group, ask));
    }
    await this.#asked.get(group);
  }

  async #ask(group, ask) {
    const tooLate = pause(timing.groupNameSeconds * 1000);
    try {
      const found = await Promise.race([ask(group), tooLate]);
      if (found) void this.learn([found]);
    } catch {
      // A name is not worth a message that waits.
    }
  }

  /** @param {Array<{id?: string, subject?: string}>} groups */
  learn(groups) {
    for (const { id, subject } of groups) {
      if (!id || !subject || this.#names.get(id) === subject) continue;
      this.#names.delete(id);
      this.#names.set(id, subject);
      if (this.#names.size > timing.groupNamesAtMost) this.#names.delete(this.#names.keys().next().value);
      this.#isDirty = true;
    }
    if (this.#isDirty) this.#saving = this.#saving.then(() => this.#save()).catch(() => {});
    return this.#saving;
  }

  async #save() {
    if (!this.#isDirty) return;
    this.#isDirty = false;
    await writeDurably(this.#file, JSON.stringify([...this.#names]));
  }
}
