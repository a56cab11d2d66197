// Starts the loopback WhatsApp as a process of its own and speaks its control API, for tests in Node.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const SERVER = fileURLToPath(new URL('./server.mjs', import.meta.url));
const LIMIT_MS = 60_000;

export class LoopbackProcess {
  static async start(folder) {
    const command = [SERVER, ...(folder ? [folder] : [])];
    const child = spawn(process.execPath, command, { stdio: ['pipe', 'pipe', 'inherit'] });
    const [line] = await once(createInterface({ input: child.stdout }), 'line');
    return new LoopbackProcess(child, JSON.parse(line));
  }

  constructor(child, place) {
    this.child = child;
    this.place = place;
  }

  async post(route, body = {}) {
    return this.#call(route, { method: 'POST', body: JSON.stringify(body) });
  }

  async get(route) {
    return this.#call(route, {});
  }

  async #call(route, init) {
    const response = await fetch(`${this.place.control_url}/${route}`, init);
    const value = await response.json();
    if (!response.ok) throw new Error(`${route}: ${value.detail}`);
    return value;
  }

  /** Waits until `found(state)` gives something. */
  async until(found, what = found.toString()) {
    const end = Date.now() + LIMIT_MS;
    for (let state = await this.get('state'); ; state = await this.get(`state?after=${state.version}&wait_ms=5000`)) {
      const value = found(state);
      if (value) return value;
      if (Date.now() > end) throw new Error(`never came: ${what}; ${JSON.stringify(state)}`);
    }
  }

  async taken(device, ...ids) {
    await this.until(({ messages }) => ids.every((id) => messages[device][id]?.done), `receipts for ${ids}`);
  }

  async message(device, id) {
    return (await this.get('state')).messages[device][id];
  }

  async stop() {
    this.child.kill('SIGTERM');
    if (this.child.exitCode === null) await once(this.child, 'exit');
  }
}
