/** The HTTP side of the process: who may ask, what it takes, how it starts and ends (C42). */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { after, before, describe, it } from 'node:test';
import { BridgeProcess, SECRET } from './support/bridge_process.mjs';

// Nothing listens on this port: neither WhatsApp nor mediamill are needed here.
const NOWHERE = { socket_url: 'ws://127.0.0.1:9/', media_origin: 'http://127.0.0.1:9', root_public_key: '00' };
const MAIN = fileURLToPath(new URL('../src/main.mjs', import.meta.url));
let folder;
let bridge;

const start = (name = 'data', env = {}) =>
  BridgeProcess.start({
    data: join(folder, name),
    staging: join(folder, 'staging'),
    backend: 'ws://127.0.0.1:9',
    place: NOWHERE,
    env,
  });

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'bridge-http-'));
  bridge = await start();
});

after(async () => {
  for (const one of BridgeProcess.running) await one.kill();
  await rm(folder, { recursive: true, force: true });
});

const fault = async (expected, ...request) => {
  const { status, body } = await bridge.call(...request);
  assert.deepEqual([status, body.code], expected, JSON.stringify(body));
  assert.equal(typeof body.detail, 'string');
};

const head = (secret = SECRET) =>
  `POST /send HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${secret}\r\ntransfer-encoding: chunked\r\n\r\n`;

/** Sends a body that never ends until the connection is closed; what was answered. */
const pour = async ({ secret, ...options } = {}) => {
  const socket = connect({ port: bridge.port, host: '127.0.0.1', ...options });
  let answer = '';
  // Writing goes on after the other side has ended, which is an error, but only once the answer is here.
  socket.on('data', (bytes) => (answer += bytes)).on('error', () => {});
  socket.write(head(secret));
  const chunk = `10000\r\n${'a'.repeat(65536)}\r\n`;
  const send = () => socket.writable && (socket.write(chunk) ? setImmediate(send) : socket.once('drain', send));
  send();
  await new Promise((closed) => socket.once('close', closed)); // `once` of events would stop at an error
  return answer;
};

describe('the bridge', () => {
  it('serves nobody without the secret, on any route', async () => {
    for (const secret of ['', 'wrong', `${SECRET}x`, SECRET.slice(0, -1), SECRET.toUpperCase()]) {
      await fault([401, 'unauthorized'], 'GET', '/status', undefined, { secret });
    }
    for (const route of ['/initialize', '/send', '/stop', '/logout', '/shutdown', '/nothing']) {
      await fault([401, 'unauthorized'], 'POST', route, {}, { secret: 'wrong' });
    }
    const bare = await fetch(`http://127.0.0.1:${bridge.port}/status`);
    assert.equal(bare.status, 401);
  });

  it('knows its routes and no others', async () => {
    await fault([404, 'no_such_route'], 'GET', '/');
    await fault([404, 'no_such_route'], 'GET', '/initialize');
    await fault([404, 'no_such_route'], 'POST', '/status', {});
    await fault([404, 'no_such_route'], 'POST', '/constructor', {});
    await fault([404, 'no_such_route'], 'GET', '/../etc/passwd');
  });

  it('refuses bodies that are no JSON objects', async () => {
    for (const raw of ['nonsense', '{"bot_id":', '[]', '"text"', 'null', '7', Buffer.from([0xff, 0xfe])]) {
      await fault([400, 'invalid'], 'POST', '/send', undefined, { raw });
    }
  });

  it('refuses bodies above 1 MiB', async () => {
    const raw = JSON.stringify({ bot_id: 'x', text: 'a'.repeat(1024 ** 2) });
    await fault([413, 'too_large'], 'POST', '/send', undefined, { raw });
  });

  it('refuses a body that never ends, without collecting it, and the client gets the answer', async () => {
    assert.match(await pour(), /^HTTP\/1.1 413 /);
  });

  it('closes on a client that has its answer and goes on sending', async () => {
    assert.match(await pour({ allowHalfOpen: true }), /^HTTP\/1.1 413 /);
  });

  it('refuses strangers before their body comes, and they get the answer while they send it', async () => {
    assert.match(await pour({ secret: 'wrong' }), /^HTTP\/1.1 401 /);
  });

  it('goes on when a client leaves in the middle of a body', async () => {
    const socket = connect(bridge.port, '127.0.0.1');
    socket.write(`${head()}10000\r\naaaa`);
    await once(socket, 'connect');
    socket.destroy();
    assert.equal((await bridge.call('GET', '/status')).status, 200);
    assert.doesNotMatch(bridge.log, /a request failed/);
  });

  it('refuses bot ids that are none', async () => {
    for (const bot_id of [undefined, null, '', 7, {}, [], 'x'.repeat(201), '\ud800']) {
      await fault([400, 'invalid'], 'POST', '/initialize', { bot_id });
    }
  });

  it('knows only bots that were initialized', async () => {
    for (const route of ['/send', '/stop', '/logout']) {
      await fault([404, 'unknown_bot'], 'POST', route, { bot_id: 'stranger' });
    }
  });

  it('initializes a bot, twice if need be, and says that there is no connection', async () => {
    const { bot_id, status } = await bridge.initialize('one', { media_storage_quota_gb: 10 });
    assert.equal(bot_id, 'one');
    assert.equal(status.state, 'connecting');
    assert.equal(status.backend, 'down');
    assert.equal(status.quota.limit_bytes, 8 * 1024 ** 3);
    assert.deepEqual(status.spool, { waiting: 0, downloading: 0 });
    const again = await bridge.initialize('one', { media_storage_quota_gb: undefined });
    assert.equal(again.status.quota.limit_bytes, 23 * 1024 ** 3);
    const message = { bot_id: 'one', recipient: '491701234567', text: 'hello', send_id: 's1' };
    await fault([503, 'not_connected'], 'POST', '/send', message);
  });

  it('refuses sends that make no sense', async () => {
    await bridge.initialize('one');
    const good = { bot_id: 'one', recipient: '491701234567@s.whatsapp.net', text: 'hello', send_id: 's1' };
    for (const wrong of [
      { recipient: 'somebody' },
      { recipient: 'status@broadcast' },
      { recipient: '1@newsletter' },
      { recipient: '../x@g.us' },
      { recipient: null },
      { recipient: 491701234567 },
      { text: '' },
      { text: 7 },
      { text: 'a'.repeat(65_537) },
      { send_id: '' },
      { send_id: undefined },
      { send_id: 'x'.repeat(201) },
    ]) {
      await fault([400, 'invalid'], 'POST', '/send', { ...good, ...wrong });
    }
  });

  it('keeps the data of bots with strange names inside its folder', async () => {
    for (const botId of ['../../evil', 'a/b', '..', 'Ä b', 'NUL\0', 'One', 'one']) await bridge.initialize(botId);
    const folders = await readdir(join(folder, 'data'));
    assert.equal(folders.length, 7);
    assert.ok(folders.every((name) => /^bot[-.][a-z0-9_-]+$/.test(name)), folders.join());
    assert.deepEqual((await readdir(folder)).sort(), ['data', 'staging']);
  });

  it('stops a bot and starts it again', async () => {
    await bridge.initialize('one');
    assert.equal((await bridge.post('/stop', { bot_id: 'one' })).status.state, 'stopped');
    assert.equal((await bridge.post('/stop', { bot_id: 'one' })).status.state, 'stopped');
    assert.equal((await bridge.initialize('one')).status.state, 'connecting');
  });

  it('lets no second bridge at its data', { skip: process.platform !== 'linux' }, async () => {
    await assert.rejects(start(), /another bridge uses this BRIDGE_DATA/);
  });

  it('does not start without its settings, and says which are missing', async () => {
    const child = spawn(process.execPath, [MAIN], { env: { BRIDGE_DATA: folder }, stdio: ['ignore', 'ignore', 'pipe'] });
    let log = '';
    child.stderr.on('data', (bytes) => (log += bytes));
    assert.equal((await once(child, 'close'))[0], 1);
    assert.match(log, /BRIDGE_SECRET, BRIDGE_STAGING, BRIDGE_BACKEND/);
  });

  for (const [name, end] of [
    ['SIGTERM', (one) => one.child.kill('SIGTERM')],
    ['SIGINT', (one) => one.child.kill('SIGINT')],
    ['/shutdown', (one) => one.post('/shutdown', {})],
    ['the end of its standard input', (one) => one.child.stdin.end()],
  ]) {
    it(`ends in good order on ${name}`, async () => {
      const one = await start('other');
      await one.initialize('one');
      end(one);
      assert.equal(await one.ended(), 0);
    });
  }
});
