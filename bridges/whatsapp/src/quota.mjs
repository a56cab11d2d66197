/**
 * How full the staging folder is, without looking for every message: a counter with reservations, measured against the
 * disk now and then. What cannot be measured counts as full.
 */
import { opendir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { PART } from './download.mjs';
import { timing } from './timing.mjs';

const GIGABYTE = 1024 ** 3;
const DEFAULT_GB = 25;
const STATS_AT_ONCE = 32;

/**
 * Above so many bytes nothing more is written.
 * @param {unknown} quotaGb
 */
export function limitBytes(quotaGb) {
  const quota = typeof quotaGb === 'number' && Number.isFinite(quotaGb) && quotaGb > 0 ? quotaGb : DEFAULT_GB;
  return Math.max(quota - 2, 1) * GIGABYTE;
}

export class Quota {
  #folder;
  /** @type {number | null} bytes in the folder when it was last measured */
  #measured = null;
  #measuredAt = 0;
  /** Written since then; a file written while measuring may count twice until the next time. */
  #written = 0;
  #reserved = 0;
  /** @type {Promise<void> | null} */
  #measuring = null;

  /** @param {string} folder */
  constructor(folder) {
    this.#folder = folder;
  }

  /** Bytes in use or promised; null if that is not known. */
  get usedBytes() {
    return this.#measured === null ? null : this.#measured + this.#written + this.#reserved;
  }

  /**
   * Room for a file, or null if there is none or nobody knows.
   * @param {number} bytes as announced
   * @param {number} limit
   * @returns {Promise<Reservation | null>}
   */
  async reserve(bytes, limit) {
    const reservation = new Reservation(this, limit);
    return (await reservation.grow(bytes)) ? reservation : null;
  }

  /** @internal */
  async take(bytes, limit) {
    if (this.#measured === null || this.#isOlderThan(timing.quotaMeasureSeconds)) await this.measure();
    // Files leave the folder without our knowledge: look again before saying no.
    if (!this.#fits(bytes, limit) && this.#isOlderThan(timing.quotaMeasureAgainSeconds)) await this.measure();
    if (!this.#fits(bytes, limit)) return false;
    this.#reserved += bytes;
    return true;
  }

  /** @internal */
  give(reservedBytes, writtenBytes) {
    this.#reserved -= reservedBytes;
    this.#written += writtenBytes;
  }

  /** Measures the folder; callers at the same time share one look. */
  measure() {
    this.#measuring ??= this.#measure().finally(() => (this.#measuring = null));
    return this.#measuring;
  }

  #fits(bytes, limit) {
    return this.usedBytes !== null && this.usedBytes + bytes <= limit;
  }

  #isOlderThan(seconds) {
    return Date.now() - this.#measuredAt > seconds * 1000;
  }

  async #measure() {
    const writtenBefore = this.#written;
    try {
      this.#measured = await folderBytes(this.#folder);
      this.#written -= writtenBefore;
    } catch {
      this.#measured = null;
    }
    this.#measuredAt = Date.now();
  }
}

/** Room promised to one download. */
class Reservation {
  #quota;
  #limit;
  bytes = 0;

  constructor(quota, limit) {
    this.#quota = quota;
    this.#limit = limit;
  }

  /** More room, for a file that is longer than announced. @param {number} bytes */
  async grow(bytes) {
    if (!(await this.#quota.take(bytes, this.#limit))) return false;
    this.bytes += bytes;
    return true;
  }

  /** The download has ended. @param {number} writtenBytes what it left on the disk */
  release(writtenBytes) {
    this.#quota.give(this.bytes, writtenBytes);
    this.bytes = 0;
  }
}

async function folderBytes(folder) {
  let total = 0;
  let batch = [];
  const addBatch = async () => {
    total += sum(await Promise.all(batch.map((name) => fileBytes(join(folder, name)))));
    batch = [];
  };
  for await (const entry of await opendir(folder)) {
    // What is being written is counted by its reservation.
    if (entry.isFile() && !entry.name.endsWith(PART)) batch.push(entry.name);
    if (batch.length === STATS_AT_ONCE) await addBatch();
  }
  await addBatch();
  return total;
}

async function fileBytes(file) {
  try {
    return (await stat(file)).size;
  } catch (error) {
    if (error.code === 'ENOENT') return 0;
    throw error;
  }
}

function sum(numbers) {
  return numbers.reduce((left, right) => left + right, 0);
}
