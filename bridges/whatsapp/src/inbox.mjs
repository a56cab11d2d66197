/**
 * What is done with each message in the spool: text goes to mediamill at once. For media mediamill is asked first whether
 * the message may come in; the message follows when its file is there or cannot be had. A download never holds up what
 * came after it.
 */
import { join } from 'node:path';
import { exists, obtainMedia } from './obtain_media.mjs';
import { Slots } from './slots.mjs';
import { pause, timing } from './timing.mjs';
import { translate } from './translate.mjs';

export class Inbox {
  #bot;
  #log;
  #stop = new AbortController();
  /** Messages are looked at one after the other, so that they keep their order. */
  #looking = Promise.resolve();
  #downloading = 0;
  /** Messages whose file is wanted or on its way. */
  #wanted = new Set();
  #ownSlots = new Slots(timing.downloadsAtOnce);

  /**
   * @param {object} bot
   * @param {import('./spool.mjs').Spool} bot.spool
   * @param {import('./quota.mjs').Quota} bot.quota
   * @param {string} bot.staging
   * @param {() => number} bot.limitBytes
   * @param {import('./slots.mjs').Slots} bot.slots shared by all bots
   * @param {(signal: AbortSignal) => Promise<void>} bot.online waits a while for WhatsApp to be reached
   * @param {(group: string) => string | null} bot.groupName
   * @param {(key: object, kind: string, media: object) => Promise<void>} bot.askForUpload
   * @param {(id: string, conversation: string) => void} bot.offer ready for mediamill
   * @param {() => void} bot.changed
   * @param {import('pino').Logger} log
   */
  constructor(bot, log) {
    this.#bot = bot;
    this.#log = log;
  }

  /** Files wanted or on their way. */
  get downloading() {
    return this.#downloading;
  }

  /** A message is in the spool. @param {string} id */
  take(id) {
    this.#looking = this.#looking.then(() => this.#guarded(id, () => this.#look(id)));
    return this.#looking;
  }

  /** The frame that mediamill gets: a question as long as the file of a message is to be fetched. @param {string} id */
  async frame(id) {
    const record = await this.#bot.spool.read(id);
    const { payload, media } = translate(record, this.#bot.groupName);
    const isAsked = media && !(await this.#isFetched(record));
    return { type: isAsked ? 'ask' : 'message', spool_id: id, payload };
  }

  /** A file that was fetched and is gone is fetched again, unless mediamill has the message already. */
  async #isFetched({ guid, outcome }) {
    if (!outcome || outcome.mime_type.startsWith('media_corrupt_')) return Boolean(outcome);
    return exists(join(this.#bot.staging, guid));
  }

  /** The message may come in: its file is fetched. @param {string} id */
  admit(id) {
    if (this.#wanted.has(id)) return;
    this.#wanted.add(id);
    this.#startDownload(id);
  }

  /** Calls off the downloads; they start again with the next run. */
  async close() {
    this.#stop.abort(new Error('the bridge stops'));
    await this.#looking;
  }

  async #look(id) {
    const record = await this.#bot.spool.read(id);
    const found = translate(record, this.#bot.groupName);
    if (!found) return this.#bot.spool.forget(id);
    this.#bot.offer(id, conversationOf(record));
  }

  /** A few at a time of each bot, so that no bot fills the slots of all. */
  #startDownload(id) {
    this.#downloading += 1;
    this.#bot.changed();
    const work = () => this.#bot.slots.run(() => this.#guarded(id, () => this.#download(id)));
    this.#ownSlots.run(work).finally(() => {
      this.#wanted.delete(id);
      this.#downloading -= 1;
      this.#bot.changed();
    });
  }

  async #download(id) {
    if (this.#stop.signal.aborted) return;
    const record = await this.#bot.spool.read(id);
    const { kind, mimeType, media } = translate(record, this.#bot.groupName).media;
    const outcome = await obtainMedia(
      { guid: record.guid, kind, mimeType, media },
      {
        staging: this.#bot.staging,
        quota: this.#bot.quota,
        limitBytes: this.#bot.limitBytes(),
        online: () => this.#bot.online(this.#stop.signal),
        askForUpload: () => this.#bot.askForUpload(record.key, kind, media),
        signal: this.#stop.signal,
        log: this.#log,
      },
    );
    await this.#bot.spool.settle(id, record, outcome);
    this.#bot.offer(id, conversationOf(record));
  }

  /** A message that cannot be dealt with is put aside; the others go on. A disk that fails is waited for. */
  async #guarded(id, work) {
    while (!this.#stop.signal.aborted) {
      try {
        return await work();
      } catch (error) {
        if (this.#stop.signal.aborted) return;
        this.#log.error({ spool_id: id, fault: error.message, stack: error.stack }, 'a message failed');
        if (!error.syscall) return this.#putAside(id, error);
        await pause(timing.brokenDiskSeconds * 1000, this.#stop.signal).catch(() => {});
      }
    }
  }

  async #putAside(id, error) {
    try {
      await this.#bot.spool.refuse(id, { code: 'bridge', detail: error.message });
    } catch (failure) {
      this.#log.error({ spool_id: id, fault: failure.message }, 'a message could not be put aside');
    }
  }
}

/** One for each chat, whichever of its two addresses a message came by: messages of a chat are sent in their order. */
function conversationOf({ key }) {
  return [key.remoteJid, key.remoteJidAlt].find((jid) => jid?.endsWith('@s.whatsapp.net')) ?? key.remoteJid;
}
