/** Waits for a state, never for a time; the limit is generous and only for tests that fail. */
import { setTimeout as pause } from 'node:timers/promises';

/**
 * @template T
 * @param {() => T | Promise<T>} look
 * @param {string} [what]
 * @param {number} [limitSeconds]
 * @returns {Promise<T>} the first value that is not falsy
 */
export async function until(look, what = look.toString(), limitSeconds = 120) {
  const end = Date.now() + limitSeconds * 1000;
  for (;;) {
    const value = await look();
    if (value) return value;
    if (Date.now() > end) throw new Error(`never came: ${what}`);
    await pause(10);
  }
}
