// A counter of changes that others can wait on, so that nobody has to sleep and look again.
export class Changes {
  #waiters = new Set();
  version = 0;

  mark = () => {
    this.version++;
    for (const wake of this.#waiters) wake();
    this.#waiters.clear();
  };

  /** Resolves when the version is above `version`, or when the time is up. */
  async after(version, limitMs) {
    if (this.version > version) return;
    await new Promise((resolve) => {
      const timer = setTimeout(() => this.#waiters.delete(wake) && resolve(), limitMs);
      const wake = () => {
        clearTimeout(timer);
        resolve();
      };
      this.#waiters.add(wake);
    });
  }
}
