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
  const began = Date.now();
  for (;;) {
    const value = await look();
    if (value) return value;
    const waited = Date.now() - began;
    if (waited > limitSeconds * 1000) throw new Error(`never came: ${what}`);
    await pause(Math.min(100, Math.max(10, waited / 10))); // each look may be a request
  }
}
