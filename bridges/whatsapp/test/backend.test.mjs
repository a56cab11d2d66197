/** The line to mediamill: window, order, answers, and what happens when it breaks. */
import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it } from 'node:test';
import pino from 'pino';
import './support/haste.mjs';
import { Backend } from '../src/backend.mjs';
import { timing } from '../src/timing.mjs';
import { FakeBackend } from './support/fake_backend.mjs';
import { until } from './support/until.mjs';

const log = pino({ level: 'silent' });
const usual = { ...timing };
let mediamill;
let backend;
let forgotten;
let refused;
let admitted;

beforeEach(async () => {
  mediamill = await new FakeBackend().start();
  forgotten = [];
  refused = [];
  admitted = [];
});

afterEach(async () => {
  await backend.stop();
  Object.assign(timing, usual);
  await mediamill.stop();
});

function connect(changes = {}) {
  backend = new Backend(
    {
      url: `${mediamill.url}/api/bridge/whatsapp/one`,
      secret: 'secret',
      bridgeId: 'bridge-1',
      frame: async (id) => ({ type: 'message', spool_id: id, payload: { provider_message_id: `M${id}` } }),
      onAdmit: (id) => void admitted.push(id),
      onAck: async (id) => void forgotten.push(id),
      onRefused: async (id, reason) => void refused.push([id, reason.code]),
      status: () => ({ state: 'connected' }),
      changed: () => {},
      ...changes,
    },
    log,
  );
  backend.start();
}

const ids = () => mediamill.frames.map((frame) => frame.spool_id);
const done = (count) => until(() => forgotten.length === count, `${count} acks`);
const silence = () => null;

describe('the line to mediamill', () => {
  it('shows the secret and who it is, and tells its status', async () => {
    connect();
    await until(() => mediamill.statuses.length);
    const [{ url, headers }] = mediamill.requests;
    assert.equal(url, '/api/bridge/whatsapp/one');
    assert.equal(headers.authorization, 'Bearer secret');
    assert.equal(headers['x-bridge-id'], 'bridge-1');
    assert.deepEqual(mediamill.statuses, [{ state: 'connected' }]);
  });

  it('sends in order and forgets on the ack', async () => {
    connect();
    for (const id of ['1', '2', '3']) backend.offer(id, 'chat');
    await done(3);
    assert.deepEqual(ids(), ['1', '2', '3']);
    assert.deepEqual(forgotten, ['1', '2', '3']);
  });

  it('has no more than 32 frames without an answer', async () => {
    mediamill.answer = silence;
    connect();
    for (let count = 100; count < 150; count += 1) backend.offer(String(count), `chat ${count}`);
    await until(() => mediamill.frames.length === 32);
    assert.equal(backend.unanswered, 32);
    mediamill.answer = ({ spool_id }) => ({ type: 'ack', spool_id });
    for (const frame of [...mediamill.frames]) mediamill.say({ type: 'ack', spool_id: frame.spool_id });
    await done(50);
    assert.equal(mediamill.frames.length, 50);
  });

  it('has one frame of a conversation on its way, and does not let it hold up others', async () => {
    mediamill.answer = ({ spool_id }) => (spool_id === '1' ? null : { type: 'ack', spool_id });
    connect();
    backend.offer('1', 'slow');
    backend.offer('2', 'slow');
    backend.offer('3', 'other');
    await done(1);
    assert.deepEqual(ids().sort(), ['1', '3']);
    mediamill.say({ type: 'ack', spool_id: '1' });
    await done(3);
    assert.deepEqual(forgotten, ['3', '1', '2']);
  });

  it('sends again in order what had no answer when the line broke', async () => {
    mediamill.answer = silence;
    connect();
    for (const id of ['1', '2', '3']) backend.offer(id, `chat ${id}`);
    backend.offer('4', 'chat 1');
    await until(() => mediamill.frames.length === 3);
    mediamill.answer = ({ spool_id }) => ({ type: 'ack', spool_id });
    mediamill.drop();
    await done(4);
    assert.deepEqual(forgotten.filter((id) => id === '1' || id === '4'), ['1', '4']);
  });

  it('connects again after mediamill was away, however long', async () => {
    connect();
    await until(() => backend.isConnected);
    await mediamill.stop();
    await until(() => !backend.isConnected);
    backend.offer('1', 'chat');
    await mediamill.start();
    await done(1);
  });

  for (const status of [401, 403, 404, 409]) {
    it(`goes on trying when it is refused with ${status}`, async () => {
      mediamill.refuseWith = status;
      connect();
      backend.offer('1', 'chat');
      await until(() => mediamill.requests.length >= 3);
      assert.equal(backend.isConnected, false);
      mediamill.refuseWith = null;
      await done(1);
    });
  }

  it('puts aside what is refused, and goes on', async () => {
    mediamill.answer = ({ spool_id }) =>
      spool_id === '1' ? { type: 'refused', spool_id, code: 'invalid', detail: '', faults: [] } : { type: 'ack', spool_id };
    connect();
    backend.offer('1', 'chat');
    backend.offer('2', 'chat');
    await done(1);
    assert.deepEqual(refused, [['1', 'invalid']]);
    assert.deepEqual(ids(), ['1', '2']);
  });

  it('sends later what is to come later, before what follows in the conversation', async () => {
    let asked = 0;
    mediamill.answer = ({ spool_id }) => {
      if (spool_id === '1' && (asked += 1) < 3) return { type: 'later', spool_id, detail: 'busy' };
      return { type: 'ack', spool_id };
    };
    connect();
    backend.offer('1', 'chat');
    backend.offer('2', 'chat');
    await done(2);
    assert.deepEqual(ids(), ['1', '1', '1', '2']);
  });

  it('gives a line up on which no answer comes, and sends again', async () => {
    timing.backendAnswerSeconds = 0.1;
    mediamill.answer = () => {
      if (mediamill.frames.length > 1) return { type: 'ack', spool_id: '1' };
      timing.backendAnswerSeconds = usual.backendAnswerSeconds; // of the next frame
      return null;
    };
    connect();
    backend.offer('1', 'chat');
    await done(1);
    assert.equal(mediamill.requests.length, 2);
  });

  it('gives a line up on which nobody answers pings', async () => {
    timing.backendPingSeconds = 0.05;
    connect();
    await until(() => backend.isConnected);
    const lost = mediamill.requests.length;
    mediamill.deafen();
    await until(() => mediamill.requests.length > lost);
  });

  it('is not upset by frames that make no sense', async () => {
    connect();
    await until(() => backend.isConnected);
    for (const frame of ['', 'nonsense', '[]', 'null', '{"type":"ack"}', '{"type":"ack","spool_id":{}}', '{"type":9}']) {
      mediamill.say(frame);
    }
    mediamill.say({ type: 'refused', spool_id: null, code: 'not_json', detail: '', faults: [] });
    mediamill.say({ type: 'later', spool_id: 'unknown' });
    backend.offer('1', 'chat');
    await done(1);
    assert.equal(mediamill.requests.length, 1);
    assert.deepEqual(refused, []);
  });

  it('goes on with the next conversation when a message cannot be read', async () => {
    let reads = 0;
    connect({
      frame: async (id) => {
        if (id === '1' && (reads += 1) === 1) throw new Error('unreadable');
        return { type: 'message', spool_id: id, payload: { provider_message_id: id } };
      },
    });
    backend.offer('1', 'chat');
    backend.offer('2', 'other');
    await done(2);
    assert.deepEqual(forgotten, ['2', '1']);
  });

  it('asks before a file is fetched, and goes on with the conversation in either case', async () => {
    const frame = async (id) => ({ type: id === '3' ? 'message' : 'ask', spool_id: id, payload: {} });
    mediamill.answerAsk = ({ spool_id }) => ({ type: spool_id === '1' ? 'admit' : 'ack', spool_id });
    connect({ frame });
    for (const id of ['1', '2', '3']) backend.offer(id, 'chat');
    await done(2);
    assert.deepEqual(admitted, ['1']);
    assert.deepEqual(forgotten, ['2', '3']);
    assert.equal(backend.unanswered, 0);
  });
});
