/** The spool: nothing in it is lost by a kill -9, and nothing is taken twice. */
import assert from 'node:assert/strict';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import pino from 'pino';
import { Spool } from '../src/spool.mjs';
import { timing } from '../src/timing.mjs';
import { runKilled } from './support/run_killed.mjs';

const log = pino({ level: 'silent' });
const usual = { ...timing };
let folder;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'bridge-spool-'));
});

afterEach(async () => {
  Object.assign(timing, usual);
  await rm(folder, { recursive: true, force: true });
});

const record = (id, rest = {}) => ({
  key: { remoteJid: '4917@s.whatsapp.net', fromMe: false, id },
  t: 1,
  push_name: 'Ann',
  me: { id: '4918@s.whatsapp.net' },
  message: '',
  guid: `guid-of-${id}`,
  ...rest,
});
const open = () => Spool.open(folder, log);
const messageIds = async (spool) => Promise.all(spool.ids().map(async (id) => (await spool.read(id)).key.id));

describe('the spool', () => {
  it('keeps messages in their order over a restart', async () => {
    const spool = await open();
    for (const id of ['A', 'B', 'C']) await spool.put(record(id));
    const again = await open();
    assert.deepEqual(await messageIds(again), ['A', 'B', 'C']);
    await again.put(record('D'));
    assert.deepEqual(await messageIds(again), ['A', 'B', 'C', 'D']);
  });

  it('takes a message once while it is there, and after it was forgotten, also over a restart', async () => {
    const spool = await open();
    const id = await spool.put(record('A'));
    assert.equal(await spool.put(record('A')), null);
    assert.equal(await (await open()).put(record('A')), null);
    await spool.forget(id);
    assert.equal(await spool.put(record('A')), null);
    assert.equal(await (await open()).put(record('A')), null);
  });

  it('takes the same id in another chat, and by another writer in a group', async () => {
    const spool = await open();
    const inGroup = (participant) => record('A', { key: { remoteJid: '1@g.us', participant, fromMe: false, id: 'A' } });
    assert.ok(await spool.put(record('A')));
    assert.ok(await spool.put(inGroup('4917@s.whatsapp.net')));
    assert.ok(await spool.put(inGroup('4919@s.whatsapp.net')));
    assert.equal(await spool.put(inGroup('4919@s.whatsapp.net')), null);
  });

  it('says of a message that comes twice at once only that it is there when it is', async () => {
    const spool = await open();
    const [first, second] = await Promise.all([spool.put(record('A')), spool.put(record('A'))]);
    assert.ok(first);
    assert.equal(second, null);
    assert.deepEqual(await messageIds(await open()), ['A']);
  });

  it('remembers how a download ended', async () => {
    const spool = await open();
    const id = await spool.put(record('A'));
    await spool.settle(id, await spool.read(id), { mime_type: 'media_corrupt_image', quota_exceeded: true });
    const again = await open();
    assert.equal((await again.read(id)).outcome.mime_type, 'media_corrupt_image');
    assert.equal((await again.read(id)).guid, 'guid-of-A');
  });

  it('puts a refused message aside with the reason, for good', async () => {
    const spool = await open();
    const id = await spool.put(record('A'));
    await spool.refuse(id, { code: 'invalid' });
    assert.equal(spool.size, 0);
    assert.deepEqual((await readdir(join(folder, 'refused'))).sort(), [`${id}.json`, `${id}.reason.json`]);
    assert.equal(await (await open()).put(record('A')), null);
  });

  it('puts a damaged entry aside and goes on', async () => {
    const spool = await open();
    await spool.put(record('A'));
    const id = await spool.put(record('B'));
    await writeFile(join(folder, `${id}.json`), '{"key":');
    assert.deepEqual(await messageIds(await open()), ['A']);
    assert.deepEqual(await readdir(join(folder, 'refused')), [`${id}.damaged`]);
  });

  it('has a memory with an end', async () => {
    timing.seenMemory = 100;
    const spool = await open();
    for (let count = 0; count < 350; count += 1) await spool.forget(await spool.put(record(`M${count}`)));
    const lines = (await readFile(join(folder, 'seen.txt'), 'utf8')).split('\n').filter(Boolean);
    assert.ok(lines.length <= 201, `${lines.length} lines`);
    const again = await open();
    assert.equal(await again.put(record('M349')), null);
    assert.equal(await again.put(record('M260')), null);
    assert.ok(await again.put(record('M0')), 'the oldest is forgotten');
  });

  it('says so when the disk takes nothing, and takes the message later', async () => {
    const spool = await open();
    await rm(folder, { recursive: true });
    await assert.rejects(spool.put(record('A')), { code: 'ENOENT' });
    const again = await open();
    assert.ok(await spool.put(record('A')));
    assert.ok(again);
  });
});

describe('a kill -9', () => {
  const code = () => `
    import { Spool } from 'SRC/spool.mjs';
    const spool = await Spool.open(${JSON.stringify(folder)}, { error() {} });
    const record = (id) => ({ key: { remoteJid: 'x@s.whatsapp.net', fromMe: false, id }, guid: 'guid-of-' + id });
    await spool.put(record('A'));
    const id = await spool.put(record('B'));
    console.log('put');
    await spool.settle(id, await spool.read(id), { mime_type: 'image/jpeg', quota_exceeded: false });
    console.log('settled');
    await spool.forget(id);
    console.log('forgotten');
    await spool.refuse(spool.ids()[0], { code: 'invalid' });
    console.log('refused');
  `;
  const points = [
    ['before the rename of a new entry', 'before rename /spool/ 2', '', ['A']],
    ['after the rename of a new entry', 'after rename /spool/ 2', '', ['A', 'B']],
    ['before the outcome is written', 'before rename /spool/ 3', 'put', ['A', 'B']],
    ['after the outcome is written', 'after rename /spool/ 3', 'put', ['A', 'B']],
    ['at the ack, before the entry is removed', 'before rm /spool/', 'settled', ['A']],
    ['at the ack, after the entry is removed', 'after rm /spool/', 'settled', ['A']],
    ['before a refused entry is moved', 'before rename /refused/ 2', 'forgotten', ['A']],
    ['after a refused entry is moved', 'after rename /refused/ 2', 'forgotten', []],
  ];
  for (const [name, crashAt, reached, left] of points) {
    it(`${name} leaves what was promised`, async () => {
      folder = join(folder, 'spool');
      const { signal, output } = await runKilled(crashAt, code());
      assert.equal(signal, 'SIGKILL');
      assert.equal(output.trim().split('\n').at(-1), reached);
      const spool = await open();
      assert.deepEqual(await messageIds(spool), left);
      assert.ok(!(await readdir(folder)).some((file) => file.endsWith('.tmp')), 'no half written files');
      if (reached === 'put' && crashAt.startsWith('after')) {
        assert.equal((await spool.read(spool.ids()[1])).outcome.mime_type, 'image/jpeg');
      }
      folder = join(folder, '..');
    });
  }

  it('nowhere lets all steps be done', async () => {
    folder = join(folder, 'spool');
    const { code: exitCode, output } = await runKilled('', code());
    assert.equal(exitCode, 0);
    assert.match(output, /refused/);
    folder = join(folder, '..');
  });
});
