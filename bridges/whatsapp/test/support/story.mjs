/** A whole stage for stories: loopback WhatsApp, mediamill's end, and bridges that come and go over the same data. */
import { once } from 'node:events';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { LoopbackProcess } from '../loopback/loopback_process.mjs';
import { BridgeProcess } from './bridge_process.mjs';
import { FakeBackend } from './fake_backend.mjs';

const CRASH = new URL('./crash_at.mjs', import.meta.url).href;
export const ANN = '491709999999@s.whatsapp.net';
export const GROUP = '120363000000000001@g.us';

export class Story {
  static async begin() {
    const story = new Story();
    story.folder = await mkdtemp(join(tmpdir(), 'bridge-story-'));
    story.staging = join(story.folder, 'staging');
    story.loopback = await LoopbackProcess.start();
    story.mediamill = await new FakeBackend().start();
    return story;
  }

  async start() {
    this.bridge = await BridgeProcess.start({
      data: join(this.folder, 'data'),
      staging: this.staging,
      backend: this.mediamill.url,
      place: this.loopback.place,
      imports: [CRASH],
      channel: true,
    });
    return this.bridge;
  }

  async pair(request = {}) {
    this.device = await this.bridge.pair('one', this.loopback, { name: 'Mill', ...request });
    return this.device;
  }

  /** Ends the bridge in good order and starts it again. */
  async restart(botId = 'one') {
    await this.bridge.kill('SIGTERM');
    await this.start();
    await this.bridge.initialize(botId);
    await this.bridge.connected(botId);
  }

  /** From now on the bridge dies at this step, as in crash_at.mjs. */
  async crashAt(step) {
    const known = once(this.bridge.child, 'message');
    this.bridge.child.send(step);
    await known;
  }

  push(message) {
    return this.loopback.post('push', { to: this.device, from: ANN, ...message });
  }

  send(text, sendId, recipient = ANN) {
    return this.bridge.post('/send', { bot_id: 'one', recipient, text, send_id: sendId });
  }

  files() {
    return readdir(this.staging);
  }

  /** How often mediamill would have stored this message: once, however often it was sent. */
  timesStored(id) {
    return this.mediamill.messages.filter((payload) => payload.provider_message_id === id).length;
  }

  async end() {
    for (const bridge of BridgeProcess.running) await bridge.kill();
    await this.loopback.stop();
    await this.mediamill.stop();
    await rm(this.folder, { recursive: true, force: true });
  }
}
