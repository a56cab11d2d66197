/** One media file: every fault that the net, the sender or the disk can have (C41, C43). */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { chmod, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, beforeEach, describe, it } from 'node:test';
import pino from 'pino';
import { shipped } from './support/haste.mjs';
import { downloadMedia } from '../src/download.mjs';
import { mediaAddress } from '../src/media_address.mjs';
import { obtainMedia } from '../src/obtain_media.mjs';
import { Quota } from '../src/quota.mjs';
import { timing } from '../src/timing.mjs';
import { whatsapp } from '../src/whatsapp.mjs';
import { MediaServer, sendWhole } from './support/media_server.mjs';
import { until } from './support/until.mjs';

const PLAIN = randomBytes(3_000_001);
const GUID = '0a8f4c1e-0000-4000-8000-000000000001';
const GIGABYTE = 1024 ** 3;
const log = pino({ level: 'silent' });
let folder;
let staging;
let server;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'bridge-download-'));
  server = await MediaServer.start(folder, PLAIN);
  timing.downloadIdleSeconds = 30;
});

after(async () => {
  await server.stop();
  await rm(folder, { recursive: true, force: true });
});

beforeEach(async () => {
  staging = await mkdtemp(join(folder, 'staging-'));
  server.requests.length = 0;
});

const room = (bytes = PLAIN.length) => ({ bytes, grow: async () => false });
const target = () => join(staging, GUID);
const fetchOne = (media, { space = room(), signal } = {}) => downloadMedia(media, 'image', target(), space, signal);

/** A download that must fail with this code, and leave nothing. */
async function fails(media, expected, options) {
  await assert.rejects(fetchOne(media, options), expected);
  assert.deepEqual(await readdir(staging), []);
}

function serve(path, answer) {
  server.paths.set(path, answer);
  return server.media(path);
}

describe('a download', () => {
  it('gives the very bytes, at their name', async () => {
    assert.equal(await fetchOne(server.media()), PLAIN.length);
    assert.deepEqual(await readFile(target()), PLAIN);
    assert.deepEqual(await readdir(staging), [GUID]);
  });

  it('does without a SHA-256 that the sender left out', async () => {
    await fetchOne(server.media('/good', { fileSha256: null }));
    assert.deepEqual(await readFile(target()), PLAIN);
  });

  it('reports a connection that is reset in the middle', async () => {
    const media = serve('/reset', (request, response, file) => {
      response.writeHead(200, { 'content-length': file.length });
      response.write(file.subarray(0, 1_000_000), () => request.socket.resetAndDestroy());
    });
    await fails(media, { code: 'network', final: false });
  });

  it('reports a truncated file', async () => {
    const cut = (bytes) => (_request, response, file) => response.end(file.subarray(0, bytes));
    await fails(serve('/truncated', cut(1_600_000)), { code: 'mac', final: false });
    await fails(serve('/short', cut(7)), { code: 'mac' });
    await fails(serve('/empty', cut(0)), { code: 'mac' });
  });

  it('reports a flipped bit in the file and in its MAC', async () => {
    const flip = (at) => (_request, response, file) => {
      const damaged = Buffer.from(file);
      damaged[at] ^= 1;
      response.end(damaged);
    };
    await fails(serve('/flip', flip(1_500_000)), { code: 'mac' });
    await fails(serve('/mac', flip(server.file.length - 1)), { code: 'mac' });
  });

  it('reports a file other than the announced one', async () => {
    await fails(server.media('/good', { fileSha256: randomBytes(32) }), { code: 'sha256' });
  });

  it('reports a file under another key', async () => {
    await fails(server.media('/good', { mediaKey: randomBytes(32) }), { code: 'mac' });
    await fails(server.media('/good', { mediaKey: randomBytes(16) }), { code: 'key', final: true });
    await fails(server.media('/good', { mediaKey: null }), { code: 'key', final: true });
  });

  it('ends when nothing comes any more', async () => {
    const media = serve('/stall', (_request, response, file) => response.write(file.subarray(0, 500_000)));
    timing.downloadIdleSeconds = 0.3;
    await fails(media, { code: 'timeout', final: false });
    await fails(serve('/silence', () => {}), { code: 'timeout' });
    timing.downloadIdleSeconds = 30;
  });

  it('ends when it takes too long as a whole, though something always comes', async () => {
    const media = serve('/drip', (_request, response, file) => {
      let at = 0;
      const timer = setInterval(() => response.write(file.subarray(at, (at += 10))), 20);
      response.on('close', () => clearInterval(timer));
    });
    timing.downloadTotalSeconds = 0.6;
    await fails(media, { code: 'timeout' });
    timing.downloadTotalSeconds = 3600;
  });

  it('ends at the byte limit', async () => {
    const { largestMediaBytes } = timing;
    timing.largestMediaBytes = 1_000_000;
    await fails(server.media(), { code: 'too_long', final: true });
    timing.largestMediaBytes = largestMediaBytes;
  });

  it('needs more room for a file that is longer than announced, and ends if there is none', async () => {
    await fails(server.media(), { code: 'quota', final: true, noRoom: true }, { space: room(1000) });
    const asked = [];
    const space = { bytes: 1000, grow: async (bytes) => asked.push(bytes) && Boolean((space.bytes += bytes)) };
    await fetchOne(server.media(), { space });
    assert.equal(asked.length, 1);
  });

  it('follows no redirect', async () => {
    const stranger = createServer(sendWhole).listen(0, '127.0.0.1');
    await once(stranger, 'listening');
    let visits = 0;
    stranger.on('request', () => (visits += 1));
    const location = `http://127.0.0.1:${stranger.address().port}/good`;
    const media = serve('/redirect', (_request, response) => response.writeHead(302, { location }).end());
    await fails(media, { code: 'network', final: true });
    assert.equal(visits, 0);
    stranger.close();
  });

  it('can be called off', async () => {
    const controller = new AbortController();
    const media = serve('/slow', (_request, response, file) => response.write(file.subarray(0, 100)));
    const failure = fails(media, { message: 'enough' }, { signal: controller.signal });
    await until(() => server.count('/slow') === 1);
    controller.abort(new Error('enough'));
    await failure;
  });

  it('fails when the folder cannot be written, and says so', async () => {
    await rm(staging, { recursive: true });
    await assert.rejects(fetchOne(server.media()), { code: 'disk' });
    staging = await mkdtemp(join(folder, 'staging-'));
  });

  it('knows a full disk', { skip: process.platform !== 'linux' }, async () => {
    await symlink('/dev/full', `${target()}.part`);
    await fails(server.media(), { code: 'no_room', final: true, noRoom: true });
  });
});

describe('the address of a media file', () => {
  const origin = (text) => mediaAddress({ url: text })?.href ?? null;
  const path = (text) => mediaAddress({ directPath: text })?.href ?? null;

  it('is the direct path on the media server, whatever the url says', () => {
    const media = { directPath: '/v/a?b=1', url: 'https://evil.example/x' };
    assert.equal(mediaAddress(media).href, `${whatsapp.mediaOrigin}/v/a?b=1`);
  });

  it('is the url if that is an https host of WhatsApp', () => {
    assert.equal(origin('https://media-fra3-1.cdn.whatsapp.net/v/x'), 'https://media-fra3-1.cdn.whatsapp.net/v/x');
  });

  for (const text of [
    'https://evil.example/x',
    'https://whatsapp.net.evil.example/x',
    'https://evilwhatsapp.net/x',
    'http://mmg.whatsapp.net/x',
    'https://mmg.whatsapp.net:8443/x',
    'https://user:secret@mmg.whatsapp.net/x',
    'https://mmg.whatsapp.net@evil.example/x',
    'file:///etc/passwd',
    'http://169.254.169.254/latest/meta-data',
    'http://127.0.0.1:1/x',
    'javascript:1',
    'nonsense',
    '',
  ]) {
    it(`is never ${text || 'nothing'}`, () => assert.equal(origin(text), null));
  }

  for (const text of ['//evil.example/x', 'https://evil.example/x', '/\\evil.example/x', '\\\\evil.example']) {
    it(`is not led astray by the direct path ${text}`, () => assert.equal(path(text), null));
  }

  it('is asked for nothing if it is a stranger’s', async () => {
    await fails({ ...server.media(), directPath: null, url: 'http://127.0.0.1:1/x' }, { code: 'address', final: true });
    assert.deepEqual(server.requests, []);
  });
});

describe('a media file', () => {
  const upload = { calls: 0, answer: async () => {} };

  const obtain = (media, changes = {}) => {
    upload.calls = 0;
    const askForUpload = () => {
      upload.calls += 1;
      return upload.answer(media);
    };
    const place = {
      staging,
      quota: new Quota(staging),
      limitBytes: GIGABYTE,
      online: async () => {},
      askForUpload,
      signal: new AbortController().signal,
      log,
      ...changes,
    };
    return obtainMedia({ guid: GUID, kind: 'image', mimeType: 'image/jpeg', media }, place);
  };

  it('is had on the third try', async () => {
    const media = serve('/third', (request, response, file, count) => {
      if (count < 3) response.writeHead(503).end();
      else sendWhole(request, response, file);
    });
    assert.deepEqual(await obtain(media), { mime_type: 'image/jpeg', quota_exceeded: false });
    assert.deepEqual(await readFile(target()), PLAIN);
  });

  it('is corrupt after three tries, and nothing is left', async () => {
    const media = serve('/broken', (_request, response) => response.writeHead(500).end());
    assert.deepEqual(await obtain(media), { mime_type: 'media_corrupt_image', quota_exceeded: false });
    assert.equal(server.count('/broken'), 3);
    assert.deepEqual(await readdir(staging), []);
  });

  it('is tried three times, with 2, 4 and 8 seconds in between', async (context) => {
    assert.equal(shipped.downloadTries, 3);
    const hasty = { ...timing };
    Object.assign(timing, { downloadPauseSeconds: shipped.downloadPauseSeconds, downloadTries: 4 });
    const pauses = [];
    const { setTimeout } = globalThis;
    context.mock.method(globalThis, 'setTimeout', (work, milliseconds, ...rest) => {
      const isPause = [2000, 4000, 8000].includes(milliseconds);
      if (isPause) pauses.push({ milliseconds, tries: server.count('/pauses') });
      return setTimeout(work, isPause ? 0 : milliseconds, ...rest);
    });
    const media = serve('/pauses', (_request, response) => response.writeHead(500).end());
    try {
      assert.equal((await obtain(media)).mime_type, 'media_corrupt_image');
    } finally {
      Object.assign(timing, hasty);
    }
    assert.deepEqual(pauses, [
      { milliseconds: 2000, tries: 1 },
      { milliseconds: 4000, tries: 2 },
      { milliseconds: 8000, tries: 3 },
    ]);
  });

  for (const status of [404, 410]) {
    it(`is asked for once more when it is gone (${status}), and taken from the new path`, async () => {
      const media = serve('/gone', (_request, response) => response.writeHead(status).end());
      upload.answer = async (one) => (one.directPath = '/good');
      assert.deepEqual(await obtain(media), { mime_type: 'image/jpeg', quota_exceeded: false });
      assert.equal(upload.calls, 1);
      assert.equal(server.count('/gone'), 1);
    });
  }

  it('is asked for only once when it stays gone', async () => {
    const media = serve('/gone', (_request, response) => response.writeHead(404).end());
    upload.answer = async () => {};
    assert.equal((await obtain(media)).mime_type, 'media_corrupt_image');
    assert.equal(upload.calls, 1);
    assert.equal(server.count('/gone'), 4, 'three tries, and one for the new upload');
  });

  it('is tried again even if nobody uploads it', async () => {
    const media = serve('/gone', (request, response, file, count) => {
      if (count < 3) response.writeHead(404).end();
      else sendWhole(request, response, file);
    });
    upload.answer = async () => Promise.reject(new Error('no answer'));
    assert.equal((await obtain(media)).mime_type, 'image/jpeg');
  });

  it('is not fetched twice after a restart', async () => {
    await writeFile(target(), 'whole');
    assert.equal((await obtain(server.media())).mime_type, 'image/jpeg');
    assert.equal(await readFile(target(), 'utf8'), 'whole');
    assert.deepEqual(server.requests, []);
  });

  it('starts anew over a part that a crash left', async () => {
    await writeFile(`${target()}.part`, 'half');
    assert.equal((await obtain(server.media())).mime_type, 'image/jpeg');
    assert.deepEqual(await readdir(staging), [GUID]);
  });

  it('is refused without a request if there is no room', async () => {
    const outcome = await obtain(server.media(), { limitBytes: 1000 });
    assert.deepEqual(outcome, { mime_type: 'media_corrupt_image', quota_exceeded: true });
    assert.deepEqual(server.requests, []);
  });

  it('is refused if nobody knows how much room there is', async () => {
    const outcome = await obtain(server.media(), { quota: new Quota(join(folder, 'no-such-folder')) });
    assert.deepEqual(outcome, { mime_type: 'media_corrupt_image', quota_exceeded: true });
  });

  it('that announces more than WhatsApp carries is not even asked for', async () => {
    const outcome = await obtain(server.media('/good', { fileLength: 2 ** 45 }));
    assert.deepEqual(outcome, { mime_type: 'media_corrupt_image', quota_exceeded: false });
    assert.deepEqual(server.requests, []);
  });

  it('that lies about its length gets no more than the limit', async () => {
    const outcome = await obtain(server.media('/good', { fileLength: 5 }), { limitBytes: 1_000_000 });
    assert.deepEqual(outcome, { mime_type: 'media_corrupt_image', quota_exceeded: true });
    assert.equal(server.count('/good'), 1);
    assert.deepEqual(await readdir(staging), []);
  });

  it('ends its tries when the disk is full', { skip: process.platform !== 'linux' }, async () => {
    timing.downloadTries = 3;
    await chmod(staging, 0o700);
    const media = serve('/full', async (request, response, file) => {
      await symlink('/dev/full', `${target()}.part`).catch(() => {});
      sendWhole(request, response, file);
    });
    assert.deepEqual(await obtain(media), { mime_type: 'media_corrupt_image', quota_exceeded: true });
    assert.equal(server.count('/full'), 1);
  });

  it('gives its reserved room back, however it ends', async () => {
    const quota = new Quota(staging);
    await obtain(serve('/broken', (_request, response) => response.writeHead(500).end()), { quota });
    assert.equal(quota.usedBytes, 0);
    await obtain(server.media(), { quota });
    assert.equal(quota.usedBytes, PLAIN.length);
  });
});
