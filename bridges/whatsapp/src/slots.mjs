/** So many pieces of work at once, the others in the order in which they came. */
export class Slots {
  #free;
  /** @type {Array<() => void>} */
  #waiting = [];

  /** @param {number} count */
  constructor(count) {
    this.#free = count;
  }

  /**
   * @template T
   * @param {() => Promise<T>} work
   * @returns {Promise<T>}
   */
  async run(work) {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise((resolve) => this.#waiting.push(resolve));
    try {
      return await work();
    } finally {
      // A slot goes straight to who waits, so that nobody overtakes.
      const next = this.#waiting.shift();
      if (next) next();
      else this.#free += 1;
    }
  }
}
