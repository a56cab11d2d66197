/** Locks by name, in this process (`exclusively`) and between processes (`lockFolder`). */
import { createHash } from 'node:crypto';
import { realpath } from 'node:fs/promises';
import { createServer } from 'node:net';

/** @type {Map<string, Promise<unknown>>} */
const tails = new Map();

/**
 * Runs the work when no other work of this name is running.
 * @template T
 * @param {string} name
 * @param {() => Promise<T>} work
 * @returns {Promise<T>}
 */
export async function exclusively(name, work) {
  const before = tails.get(name) ?? Promise.resolve();
  let release;
  const tail = new Promise((resolve) => (release = resolve));
  tails.set(name, tail);
  await before;
  try {
    return await work();
  } finally {
    if (tails.get(name) === tail) tails.delete(name);
    release();
  }
}

/**
 * Keeps a second bridge off the same folder. The lock is a socket without a file, which the kernel frees however the
 * process ends; only Linux has those, elsewhere there is no lock.
 * @param {string} folder
 */
export async function lockFolder(folder) {
  if (process.platform !== 'linux') return;
  const name = createHash('sha256').update(await realpath(folder)).digest('hex').slice(0, 40);
  const server = createServer().unref();
  await new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen({ path: `\0mediamill-whatsapp-${name}` }, resolve);
  });
}
