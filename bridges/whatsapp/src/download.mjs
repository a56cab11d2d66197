/**
 * One download of one media file: streamed, decrypted and verified on the way to the disk, bounded in bytes and time.
 * A file is WhatsApp's AES-256-CBC with the first ten bytes of an HMAC over iv and ciphertext at its end.
 */
import { createDecipheriv, createHash, createHmac, timingSafeEqual } from 'node:crypto';
import { open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { DEFAULT_ORIGIN, getMediaKeys } from '@whiskeysockets/baileys';
import { syncFolder } from './durable_file.mjs';
import { mediaAddress } from './media_address.mjs';
import { timing } from './timing.mjs';

export const PART = '.part';
const MAC_BYTES = 10;
const GROWTH_BYTES = 16 * 1024 ** 2;
const FULL_DISK = new Set(['ENOSPC', 'EDQUOT', 'EFBIG']);
const FILE_CALLS = new Set(['open', 'write', 'fsync', 'rename', 'close']);
const GONE = new Set([403, 404, 410]);

/** Why a file could not be had. */
export class MediaFault extends Error {
  /**
   * @param {string} code
   * @param {string} message
   * @param {{final?: boolean, gone?: boolean, noRoom?: boolean, cause?: unknown}} [facts]
   *   final: another try is no use; gone: it may be uploaded again; noRoom: for want of room
   */
  constructor(code, message, { final = false, gone = false, noRoom = false, cause } = {}) {
    super(message, { cause });
    Object.assign(this, { code, final, gone, noRoom });
  }
}

/**
 * @typedef {object} Media what a message says of its file
 * @property {Uint8Array} mediaKey
 * @property {string | null} [directPath]
 * @property {string | null} [url]
 * @property {Uint8Array | null} [fileSha256]
 * @property {unknown} [fileLength]
 */

/**
 * Puts the file at `target`, whole and verified, or throws and leaves nothing.
 * @param {Media} media
 * @param {string} type as Baileys names it, for the keys
 * @param {string} target
 * @param {{bytes: number, grow: (bytes: number) => Promise<boolean>}} room
 * @param {AbortSignal} [signal]
 * @returns {Promise<number>} its length
 */
export async function downloadMedia(media, type, target, room, signal) {
  const address = mediaAddress(media);
  if (!address) throw new MediaFault('address', 'no address of WhatsApp in the message', { final: true });
  if (media.mediaKey?.length !== 32) throw new MediaFault('key', 'no media key', { final: true });
  const clock = new Clock(signal);
  const part = target + PART;
  try {
    const response = await request(address, clock.signal);
    const verify = new Verifier(await getMediaKeys(media.mediaKey, type), media.fileSha256);
    const plain = (chunks) => bounded(verify.decrypt(clock.watch(chunks)), room);
    await write(part, (sink) => pipeline(Readable.fromWeb(response.body), plain, sink, { signal: clock.signal }));
    await rename(part, target);
    await syncFolder(dirname(target));
    return verify.bytes;
  } catch (error) {
    await rm(part, { force: true });
    throw explain(error, clock.signal);
  } finally {
    clock.stop();
  }
}

async function request(address, signal) {
  const headers = { origin: DEFAULT_ORIGIN, 'accept-encoding': 'identity' };
  const response = await fetch(address, { headers, signal, redirect: 'error' });
  if (response.ok && response.body) return response;
  await response.body?.cancel();
  const { status } = response;
  throw new MediaFault(`http_${status}`, `HTTP ${status}`, { gone: GONE.has(status) });
}

/** Opened before the first byte and closed after the last: no file appears once a failed download was cleaned up. */
async function write(part, fill) {
  const handle = await open(part, 'w');
  try {
    await fill((chunks) => handle.writeFile(chunks));
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Ends a download that stalls, or takes too long as a whole, or is called off. */
class Clock {
  #controller = new AbortController();
  #outer;
  #total;
  #idle;

  constructor(outer) {
    this.#outer = outer;
    this.#total = setTimeout(() => this.#end('took too long'), timing.downloadTotalSeconds * 1000);
    outer?.addEventListener('abort', this.#onAbort, { once: true });
    if (outer?.aborted) this.#onAbort();
    this.#wind();
  }

  get signal() {
    return this.#controller.signal;
  }

  async *watch(chunks) {
    for await (const chunk of chunks) {
      this.#wind();
      yield chunk;
    }
  }

  stop() {
    clearTimeout(this.#total);
    clearTimeout(this.#idle);
    this.#outer?.removeEventListener('abort', this.#onAbort);
  }

  #onAbort = () => this.#controller.abort(this.#outer.reason);

  #wind() {
    clearTimeout(this.#idle);
    this.#idle = setTimeout(() => this.#end('stalled'), timing.downloadIdleSeconds * 1000);
  }

  #end(what) {
    this.#controller.abort(new MediaFault('timeout', `the download ${what}`));
  }
}

/** Decrypts and checks: nothing after the last chunk is let through before the MAC was right. */
class Verifier {
  bytes = 0;
  #cipher;
  #mac;
  #hash = createHash('sha256');
  #sha256;

  constructor({ iv, cipherKey, macKey }, sha256) {
    this.#cipher = createDecipheriv('aes-256-cbc', cipherKey, iv);
    this.#mac = createHmac('sha256', macKey).update(iv);
    this.#sha256 = sha256;
  }

  async *decrypt(chunks) {
    let tail = Buffer.alloc(0);
    for await (const chunk of chunks) {
      const joined = Buffer.concat([tail, chunk]);
      const cut = Math.max(0, joined.length - MAC_BYTES);
      tail = Buffer.from(joined.subarray(cut));
      const encrypted = joined.subarray(0, cut);
      this.#mac.update(encrypted);
      const plain = this.#cipher.update(encrypted);
      if (plain.length) yield this.#count(plain);
    }
    const last = this.#finish(tail);
    if (last.length) yield last;
    this.#checkHash();
  }

  #finish(tail) {
    const expected = this.#mac.digest().subarray(0, MAC_BYTES);
    if (tail.length !== MAC_BYTES || !timingSafeEqual(expected, tail)) {
      throw new MediaFault('mac', 'the file is truncated or damaged');
    }
    return this.#count(this.#cipher.final());
  }

  #checkHash() {
    if (this.#sha256?.length && !this.#hash.digest().equals(this.#sha256)) {
      throw new MediaFault('sha256', 'the file is another than announced');
    }
  }

  #count(plain) {
    this.bytes += plain.length;
    this.#hash.update(plain);
    return plain;
  }
}

/** The announced length is a stranger's word: what goes beyond the room asked for needs more, up to the limit. */
async function* bounded(chunks, room) {
  let bytes = 0;
  for await (const chunk of chunks) {
    bytes += chunk.length;
    if (bytes > timing.largestMediaBytes) {
      throw new MediaFault('too_long', 'the file is too long', { final: true });
    }
    if (bytes > room.bytes && !(await room.grow(GROWTH_BYTES))) {
      throw new MediaFault('quota', 'longer than announced, no room', { final: true, noRoom: true });
    }
    yield chunk;
  }
}

function explain(error, signal) {
  if (signal.aborted) return signal.reason;
  if (error instanceof MediaFault) return error;
  const cause = error.cause ?? error;
  if (FULL_DISK.has(cause.code)) {
    return new MediaFault('no_room', 'the disk is full', { final: true, noRoom: true, cause });
  }
  const isRedirect = /redirect/.test(cause.message ?? '');
  const isOfDisk = FILE_CALLS.has(cause.syscall);
  const what = cause.code ?? cause.message ?? 'failed';
  return new MediaFault(isOfDisk ? 'disk' : 'network', what, { final: isRedirect, cause });
}
