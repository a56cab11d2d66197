/** Sending once: repetitions, crashes, and ids that are used for something else. */
import assert from 'node:assert/strict';
import { mkdtemp, readdir, rm, utimes } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { messageId, Outbox } from '../src/outbox.mjs';
import { runKilled } from './support/run_killed.mjs';

const REQUEST = { sendId: 's1', recipient: '49@s.whatsapp.net', text: 'hello' };
let folder;
let delivered;

beforeEach(async () => {
  folder = join(await mkdtemp(join(tmpdir(), 'bridge-outbox-')), 'outbox');
  delivered = [];
});

afterEach(() => rm(join(folder, '..'), { recursive: true, force: true }));

const open = () => Outbox.open(folder, 'bot');
const deliver = async (id) => void delivered.push(id);

describe('the outbox', () => {
  it('makes ids of WhatsApp’s form, the same for the same send, others for other bots and sends', () => {
    assert.match(messageId('bot', 's1'), /^3EB0[0-9A-F]{18}$/);
    assert.equal(messageId('bot', 's1'), messageId('bot', 's1'));
    assert.equal(new Set([messageId('bot', 's1'), messageId('bot', 's2'), messageId('two', 's1')]).size, 3);
  });

  it('sends once, also after a restart', async () => {
    const outbox = await open();
    const id = messageId('bot', 's1');
    assert.deepEqual(await outbox.send(REQUEST, deliver), { provider_message_id: id, repeated: false });
    assert.deepEqual(await outbox.send(REQUEST, deliver), { provider_message_id: id, repeated: true });
    assert.deepEqual(await (await open()).send(REQUEST, deliver), { provider_message_id: id, repeated: true });
    assert.deepEqual(delivered, [id]);
  });

  it('sends once when asked twice at the same time', async () => {
    const outbox = await open();
    const answers = await Promise.all([outbox.send(REQUEST, deliver), outbox.send(REQUEST, deliver)]);
    assert.equal(delivered.length, 1);
    assert.deepEqual(answers.map((answer) => answer.repeated), [false, true]);
  });

  it('sends again under the same id what failed', async () => {
    const outbox = await open();
    await assert.rejects(outbox.send(REQUEST, () => Promise.reject(new Error('offline'))), /offline/);
    assert.equal((await outbox.send(REQUEST, deliver)).repeated, false);
    assert.deepEqual(delivered, [messageId('bot', 's1')]);
  });

  it('refuses an id that stands for another message', async () => {
    const outbox = await open();
    await outbox.send(REQUEST, deliver);
    await assert.rejects(outbox.send({ ...REQUEST, text: 'other' }, deliver), { status: 409, code: 'send_id_reused' });
    await assert.rejects(outbox.send({ ...REQUEST, recipient: '50@s.whatsapp.net' }, deliver), { status: 409 });
    assert.equal(delivered.length, 1);
  });

  it('knows the text of what it sent, and of nothing else', async () => {
    const outbox = await open();
    await outbox.send(REQUEST, deliver);
    assert.equal(await outbox.textOf(messageId('bot', 's1')), 'hello');
    assert.equal(await outbox.textOf('3EB0'), null);
    assert.equal(await outbox.textOf('../../secret'), null);
  });

  it('forgets after thirty days', async () => {
    const outbox = await open();
    await outbox.send(REQUEST, deliver);
    await outbox.send({ ...REQUEST, sendId: 's2' }, deliver);
    const old = new Date(Date.now() - 31 * 24 * 3600 * 1000);
    await utimes(join(folder, `${messageId('bot', 's1')}.json`), old, old);
    await open();
    assert.deepEqual(await readdir(folder), [`${messageId('bot', 's2')}.json`]);
  });

  for (const [name, crashAt, sentBefore, repeated] of [
    ['before it is written down', 'before rename /outbox/ 1', 0, false],
    ['after it is written down, before it is sent', 'after rename /outbox/ 1', 0, false],
    ['after it is sent, before that is written down', 'before rename /outbox/ 2', 1, false],
    ['after that is written down', 'after rename /outbox/ 2', 1, true],
  ]) {
    it(`killed ${name}, sends under the one id on repetition`, async () => {
      const { signal, output } = await runKilled(crashAt, `
        import { Outbox } from 'SRC/outbox.mjs';
        const outbox = await Outbox.open(${JSON.stringify(folder)}, 'bot');
        await outbox.send(${JSON.stringify(REQUEST)}, async (id) => process.stdout.write(id + '\\n'));
      `);
      assert.equal(signal, 'SIGKILL');
      assert.equal(output.split('\n').filter(Boolean).length, sentBefore);
      assert.equal((await (await open()).send(REQUEST, deliver)).repeated, repeated);
      const ids = new Set([...output.split('\n').filter(Boolean), ...delivered]);
      assert.deepEqual([...ids], [messageId('bot', 's1')]);
    });
  }
});
