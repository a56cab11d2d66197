// Media as WhatsApp keeps it: encrypted files that are fetched over HTTP, with faults on request.
import { createCipheriv, createHash, createHmac, hkdfSync, randomBytes } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { mkdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';

const KEY_NAMES = { image: 'Image', sticker: 'Image', video: 'Video', audio: 'Audio', document: 'Document' };
const MAC_BYTES = 10;
const READ_BYTES = 1024 ** 2; // large files in fewer steps
const PATH = '/v/t62.7118-24/';

/** Writes the encrypted file and returns what a message says about it. */
export async function encryptMedia(plain, type, target) {
  const mediaKey = randomBytes(32);
  const keys = Buffer.from(hkdfSync('sha256', mediaKey, Buffer.alloc(32), `WhatsApp ${KEY_NAMES[type]} Keys`, 112));
  const iv = keys.subarray(0, 16);
  const cipher = createCipheriv('aes-256-cbc', keys.subarray(16, 48), iv);
  const mac = createHmac('sha256', keys.subarray(48, 80)).update(iv);
  const [plainHash, encryptedHash] = [createHash('sha256'), createHash('sha256')];
  const file = createWriteStream(target);
  let fileLength = 0;
  const write = async (bytes) => {
    encryptedHash.update(bytes);
    if (!file.write(bytes)) await once(file, 'drain');
  };
  const seal = async (bytes) => {
    mac.update(bytes);
    await write(bytes);
  };
  for await (const chunk of plain) {
    fileLength += chunk.length;
    plainHash.update(chunk);
    await seal(cipher.update(chunk));
  }
  await seal(cipher.final());
  await write(mac.digest().subarray(0, MAC_BYTES));
  file.end();
  await once(file, 'close');
  return { mediaKey, fileLength, fileSha256: plainHash.digest(), fileEncSha256: encryptedHash.digest() };
}

export class MediaShelf {
  #folder;
  #byPath = new Map();
  #onChange;

  constructor(folder, onChange, saved = []) {
    this.#folder = folder;
    this.#onChange = onChange;
    for (const media of saved) this.#byPath.set(media.directPath, media);
  }

  toJSON() {
    return [...this.#byPath.values()];
  }

  all() {
    return [...this.#byPath.values()];
  }

  get(directPath) {
    return this.#byPath.get(directPath);
  }

  /** Takes a file's path or bytes in base64; `faults` as told in the README. */
  async add({ file, bytes_base64, faults = [], reupload = 'accept' }, type, messageId) {
    await mkdir(this.#folder, { recursive: true });
    const name = randomBytes(12).toString('hex');
    const target = join(this.#folder, `${name}.enc`);
    const plain = file ? createReadStream(file, { highWaterMark: READ_BYTES }) : Readable.from([Buffer.from(bytes_base64 ?? '', 'base64')]);
    const facts = await encryptMedia(plain, type, target);
    return this.#keep({ ...facts, messageId, target, faults: [faults].flat(), reupload }, name);
  }

  /** The phone uploads the file once more: another path, and no faults. */
  addAgain(media) {
    return this.#keep({ ...media, faults: [] }, randomBytes(12).toString('hex'));
  }

  #keep(fields, name) {
    const media = { ...fields, directPath: `${PATH}${name}`, requests: 0, completed: 0 };
    this.#byPath.set(media.directPath, media);
    return media;
  }

  ofMessage(messageId) {
    return this.all().filter((media) => media.messageId === messageId);
  }

  async serve(request, response) {
    const media = this.#byPath.get(new URL(request.url, 'http://media').pathname);
    if (!media) return response.writeHead(404).end();
    media.requests++;
    const fault = nextFault(media.faults);
    this.#onChange();
    if (fault.status) return response.writeHead(fault.status).end();
    await sendFile(media.target, fault, () => media.faults.includes(fault), request, response);
    if (response.writableFinished) media.completed++;
    this.#onChange();
  }
}

/** The first fault that is not used up; one without `fail_times` holds for ever. */
function nextFault(faults) {
  const fault = faults.find((candidate) => candidate.fail_times !== 0);
  if (fault?.fail_times) fault.fail_times--;
  return fault ?? {};
}

/** One that is slow goes on quickly when its fault is taken away. */
async function sendFile(path, fault, holds, request, response) {
  const size = (await stat(path)).size;
  const end = Math.min(size, fault.truncate_to ?? size);
  const stopAt = fault.reset_after ?? fault.stall_after ?? end;
  response.writeHead(200, { 'content-length': end, 'content-type': 'application/octet-stream' });
  response.on('error', () => {});
  const closed = once(response, 'close').catch(() => {});
  let sent = 0;
  const highWaterMark = fault.bytes_per_second ? Math.max(1, Math.floor(fault.bytes_per_second / 10)) : READ_BYTES;
  for await (const chunk of createReadStream(path, { highWaterMark })) {
    const part = flip(chunk, fault.flip_at - sent).subarray(0, stopAt - sent);
    sent += part.length;
    if (response.destroyed) return;
    if (part.length) await Promise.race([new Promise((resolve) => response.write(part, resolve)), closed]);
    if (sent >= stopAt) break;
    if (fault.bytes_per_second && holds()) await pause(100);
  }
  await finish(fault, request, response);
}

async function finish(fault, request, response) {
  if (fault.stall_after !== undefined) {
    await once(response, 'close'); // until the client gives up
  } else if (fault.reset_after !== undefined) {
    request.socket.destroy();
  } else {
    response.end();
    if (!response.destroyed) await Promise.race([once(response, 'finish'), once(response, 'close')]);
  }
}

function flip(chunk, at) {
  if (at >= 0 && at < chunk.length) chunk[at] ^= 1;
  return chunk;
}
