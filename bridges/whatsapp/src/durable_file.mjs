/** Files that a crash leaves either as they were or as they were to become: temporary file, fsync, rename, fsync. */
import { mkdir, open, readdir, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';

const TEMPORARY = '.tmp';
let counter = 0;

/** Makes the names in a folder durable. @param {string} folder */
export async function syncFolder(folder) {
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/**
 * Replaces a file; the name is durable only after `syncFolder`, so that many files share one sync of their folder.
 * @param {string} file
 * @param {string | Uint8Array} content
 */
export async function replaceFile(file, content) {
  counter += 1;
  const temporary = `${file}.${process.pid}-${counter}${TEMPORARY}`;
  try {
    const handle = await open(temporary, 'wx', 0o600);
    try {
      await handle.writeFile(content);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(temporary, file);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}

/**
 * Replaces a file and returns when nothing can undo it.
 * @param {string} file
 * @param {string | Uint8Array} content
 */
export async function writeDurably(file, content) {
  await replaceFile(file, content);
  await syncFolder(dirname(file));
}

/** Makes a folder, and removes what a crash left half written in it. @param {string} folder */
export async function openFolder(folder) {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const names = await readdir(folder);
  await Promise.all(
    names.filter((name) => name.endsWith(TEMPORARY)).map((name) => rm(join(folder, name), { force: true })),
  );
  return names.filter((name) => !name.endsWith(TEMPORARY));
}
