/** The bridge as its keeper starts it: a process of its own, which tests talk to over HTTP and kill. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { until } from './until.mjs';

const MAIN = fileURLToPath(new URL('../../src/main.mjs', import.meta.url));
const PRELOAD = new URL('../loopback/preload.mjs', import.meta.url).href;
const HASTE = new URL('./haste.mjs', import.meta.url).href;
export const SECRET = 'a-secret-of-the-tests';

export class BridgeProcess {
  static running = new Set();

  /** @param {{data: string, staging: string, backend: string, place?: object, env?: object, imports?: string[],
   *   channel?: boolean}} options `channel`: for messages to one of the imports */
  static async start({ data, staging, backend, place, env = {}, imports = [], channel = false }) {
    const modules = [HASTE, ...(place ? [PRELOAD] : []), ...imports];
    const preload = modules.flatMap((module) => ['--import', module]);
    const child = spawn(process.execPath, [...preload, MAIN], {
      stdio: ['pipe', 'pipe', process.env.BRIDGE_TEST_LOG ? 'inherit' : 'pipe', ...(channel ? ['ipc'] : [])],
      env: {
        PATH: process.env.PATH,
        BRIDGE_SECRET: SECRET,
        BRIDGE_DATA: data,
        BRIDGE_STAGING: staging,
        BRIDGE_BACKEND: backend,
        BRIDGE_LOG: process.env.BRIDGE_TEST_LOG ?? 'info',
        LOOPBACK_WHATSAPP: JSON.stringify(place ?? null),
        ...env,
      },
    });
    const bridge = new BridgeProcess(child);
    BridgeProcess.running.add(bridge);
    child.stderr?.on('data', (bytes) => (bridge.log += bytes));
    child.on('exit', () => BridgeProcess.running.delete(bridge));
    const line = await Promise.race([
      once(createInterface({ input: child.stdout }), 'line').then(([text]) => text),
      once(child, 'exit').then(([code]) => {
        throw new Error(`the bridge ended with ${code}: ${bridge.log}`);
      }),
    ]);
    bridge.port = JSON.parse(line).listening;
    return bridge;
  }

  log = '';

  constructor(child) {
    this.child = child;
  }

  async call(method, route, body, { secret = SECRET, raw } = {}) {
    const response = await fetch(`http://127.0.0.1:${this.port}${route}`, {
      method,
      headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
      body: raw ?? (body === undefined ? undefined : JSON.stringify(body)),
    });
    return { status: response.status, body: await response.json() };
  }

  async post(route, body) {
    const { status, body: answer } = await this.call('POST', route, body);
    if (status !== 200) throw new Error(`${route}: ${status} ${JSON.stringify(answer)}`);
    return answer;
  }

  async status(botId) {
    return (await this.call('GET', '/status')).body.bots[botId];
  }

  initialize(botId, rest = {}) {
    return this.post('/initialize', { bot_id: botId, provider_config: {}, ...rest });
  }

  /** Links the bot with the loopback WhatsApp, as a person with a telephone does. */
  async pair(botId, loopback, request = {}) {
    await this.initialize(botId);
    const qr = await until(async () => (await this.status(botId)).qr, 'a QR code');
    const { device } = await loopback.post('scan', { qr, ...request });
    await this.connected(botId);
    return device;
  }

  connected(botId) {
    return until(async () => (await this.status(botId))?.state === 'connected', `${botId} connected`);
  }

  empty(botId) {
    return until(async () => (await this.status(botId)).spool.waiting === 0, `an empty spool of ${botId}`);
  }

  get isRunning() {
    return this.child.exitCode === null && this.child.signalCode === null;
  }

  async kill(signal = 'SIGKILL') {
    if (!this.isRunning) return;
    const ended = once(this.child, 'exit');
    this.child.kill(signal);
    await ended;
  }

  async ended() {
    if (this.isRunning) await once(this.child, 'exit');
    return this.child.exitCode;
  }
}
