/** The WhatsApp session on disk survives a kill -9 at every step of a change. */
import assert from 'node:assert/strict';
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { BufferJSON, proto } from '@whiskeysockets/baileys';
import pino from 'pino';
import { AuthStore } from '../src/auth_store.mjs';
import { runKilled } from './support/run_killed.mjs';

const log = pino({ level: 'silent' });
let folder;

beforeEach(async () => {
  folder = join(await mkdtemp(join(tmpdir(), 'bridge-auth-')), 'auth');
});

afterEach(() => rm(join(folder, '..'), { recursive: true, force: true }));

const open = () => AuthStore.open(folder, log);

describe('the auth store', () => {
  it('gives back credentials and keys of every form after a restart', async () => {
    const store = await open();
    store.creds.me = { id: '49@s.whatsapp.net', name: 'Ännchen' };
    await store.saveCreds();
    const syncKey = proto.Message.AppStateSyncKeyData.fromObject({ keyData: Buffer.from('k'), timestamp: 7 });
    await store.keys.set({
      session: { '49.0': { _sessions: { a: { chain: 1 } }, version: 'v1' } },
      'sender-key': { '1@g.us::49::0': Buffer.from('[{}]') },
      'lid-mapping': { 49: '77', '77_reverse': '49' },
      'app-state-sync-key': { AAA: syncKey },
    });
    const again = await open();
    const asText = (creds) => JSON.stringify(creds, BufferJSON.replacer);
    assert.equal(asText(again.creds), asText(store.creds));
    assert.ok(Buffer.isBuffer(again.creds.noiseKey.private));
    const { keys } = again;
    const session = { _sessions: { a: { chain: 1 } }, version: 'v1' };
    assert.deepEqual(await keys.get('session', ['49.0', 'none']), { '49.0': session });
    assert.deepEqual(await keys.get('sender-key', ['1@g.us::49::0']), { '1@g.us::49::0': Buffer.from('[{}]') });
    assert.deepEqual(await keys.get('lid-mapping', ['49', '77_reverse']), { 49: '77', '77_reverse': '49' });
    assert.equal(Number((await keys.get('app-state-sync-key', ['AAA'])).AAA.timestamp), 7);
  });

  it('removes what is set to null', async () => {
    const store = await open();
    await store.keys.set({ 'pre-key': { 1: { private: Buffer.from('a') }, 2: { private: Buffer.from('b') } } });
    await store.keys.set({ 'pre-key': { 1: null } });
    assert.deepEqual(Object.keys(await store.keys.get('pre-key', ['1', '2'])), ['2']);
  });

  it('takes ids that would be paths, and very long ones', async () => {
    const store = await open();
    const ids = ['../../x', 'a/b', '\0', 'x'.repeat(5000), ''];
    await store.keys.set({ session: Object.fromEntries(ids.map((id) => [id, { id }])) });
    assert.deepEqual(Object.keys(await store.keys.get('session', ids)).sort(), [...ids].sort());
    assert.deepEqual(await readdir(join(folder, '..')), ['auth']);
  });

  it('makes changes of one key in the order in which they were asked for', async () => {
    const store = await open();
    const changes = Array.from({ length: 50 }, (_, turn) => store.keys.set({ session: { a: { turn } } }));
    await Promise.all(changes);
    assert.equal((await store.keys.get('session', ['a'])).a.turn, 49);
  });

  it('writes the 812 keys of a first connection well within the time that Baileys gives', async () => {
    const store = await open();
    const keys = Object.fromEntries(Array.from({ length: 812 }, (_, id) => [id, { private: Buffer.alloc(32) }]));
    const start = Date.now();
    await store.keys.set({ 'pre-key': keys });
    assert.ok(Date.now() - start < 20_000);
  });

  it('puts damaged credentials aside and starts anew, instead of failing for ever', async () => {
    const store = await open();
    await store.saveCreds();
    await writeFile(join(folder, 'creds.json'), '{"noiseKey"');
    const again = await open();
    assert.notDeepEqual(again.creds.noiseKey, store.creds.noiseKey);
    assert.ok((await readdir(folder)).includes('creds.json.damaged'));
  });

  it('forgets everything when it is cleared', async () => {
    const store = await open();
    store.creds.me = { id: 'x' };
    await store.saveCreds();
    await store.keys.set({ session: { a: {} } });
    await store.clear();
    assert.deepEqual(await readdir(folder), []);
    assert.equal(store.creds.me, undefined);
  });

  it('takes nothing more from who still works with the keys of a forgotten session', async () => {
    const store = await open();
    const { keys } = store;
    await store.clear();
    await keys.set({ session: { a: { old: true } } });
    assert.deepEqual(await readdir(folder), []);
    await store.keys.set({ session: { a: { old: false } } });
    assert.equal((await store.keys.get('session', ['a'])).a.old, false);
  });
});

describe('a kill -9 of the auth store', () => {
  const code = () => `
    import { AuthStore } from 'SRC/auth_store.mjs';
    const store = await AuthStore.open(${JSON.stringify(folder)}, {});
    store.creds.nextPreKeyId = 1;
    await store.saveCreds();
    await store.keys.set({ session: { a: { turn: 1 } }, 'pre-key': { 5: { turn: 1 } } });
    store.creds.nextPreKeyId = 2;
    await store.saveCreds();
    await store.keys.set({ session: { a: { turn: 2 } }, 'pre-key': { 5: null } });
  `;
  const points = [
    ['before the new credentials are there', 'before rename creds.json 2', 1, 1, true],
    ['after the new credentials are there', 'after rename creds.json 2', 2, 1, true],
    ['before the new session is there', 'before rename session- 2', 2, 1, true],
    ['between the new session and the removal of its key', 'before rm pre-key-', 2, 2, true],
    ['after all', 'after rm pre-key-', 2, 2, false],
  ];
  for (const [name, crashAt, credentials, turn, hasKey] of points) {
    it(`${name} leaves a session that is whole`, async () => {
      assert.equal((await runKilled(crashAt, code())).signal, 'SIGKILL');
      const store = await open();
      assert.equal(store.creds.nextPreKeyId, credentials);
      assert.equal((await store.keys.get('session', ['a'])).a.turn, turn);
      assert.equal('5' in (await store.keys.get('pre-key', ['5'])), hasKey);
      assert.ok(!(await readdir(folder)).some((file) => file.endsWith('.tmp')));
    });
  }
});
