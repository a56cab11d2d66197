/** How full the staging folder is (C21). */
import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { limitBytes, Quota } from '../src/quota.mjs';
import { timing } from '../src/timing.mjs';

const GIGABYTE = 1024 ** 3;
const usual = { ...timing };
let folder;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'bridge-quota-'));
});

afterEach(async () => {
  Object.assign(timing, usual);
  await rm(folder, { recursive: true, force: true });
});

const put = (name, bytes) => writeFile(join(folder, name), Buffer.alloc(bytes));

describe('the limit', () => {
  it('is two gigabytes below the quota, and one at least', () => {
    assert.equal(limitBytes(25), 23 * GIGABYTE);
    assert.equal(limitBytes(3), GIGABYTE);
    assert.equal(limitBytes(2.5), GIGABYTE);
    assert.equal(limitBytes(0.1), GIGABYTE);
  });

  it('is that of 25 gigabytes if none is given, or nonsense', () => {
    for (const quota of [undefined, null, 0, -1, NaN, Infinity, '10', {}]) assert.equal(limitBytes(quota), 23 * GIGABYTE);
  });
});

describe('the quota', () => {
  it('counts what is there, and promises no more than fits', async () => {
    await put('a', 600);
    const quota = new Quota(folder);
    const first = await quota.reserve(300, 1000);
    assert.equal(quota.usedBytes, 900);
    assert.equal(await quota.reserve(101, 1000), null);
    assert.ok(await quota.reserve(100, 1000));
    first.release(0);
    assert.equal(quota.usedBytes, 700);
  });

  it('lets two that ask at the same time not have the same room', async () => {
    const quota = new Quota(folder);
    const asked = await Promise.all([1, 2, 3, 4].map(() => quota.reserve(400, 1000)));
    assert.equal(asked.filter(Boolean).length, 2);
  });

  it('counts a finished file by what it became', async () => {
    const quota = new Quota(folder);
    const room = await quota.reserve(500, 1000);
    await put('b', 200);
    room.release(200);
    assert.equal(quota.usedBytes, 200);
    await quota.measure();
    assert.equal(quota.usedBytes, 200, 'not once more by measuring');
  });

  it('does not count a file in the making beside its reservation', async () => {
    const quota = new Quota(folder);
    await quota.reserve(500, 1000);
    await put('c.part', 300);
    await quota.measure();
    assert.equal(quota.usedBytes, 500);
  });

  it('looks at the folder now and then, not for every file', async () => {
    const quota = new Quota(folder);
    let looks = 0;
    const measure = quota.measure.bind(quota);
    quota.measure = () => (looks += 1) && measure();
    for (let count = 0; count < 500; count += 1) (await quota.reserve(1, 1000)).release(1);
    assert.equal(looks, 1);
  });

  it('looks again before it refuses: files leave without its knowledge', async () => {
    timing.quotaMeasureAgainSeconds = -1;
    await put('d', 900);
    const quota = new Quota(folder);
    await quota.measure();
    assert.equal(await quota.reserve(200, 1000), null);
    await rm(join(folder, 'd'));
    assert.ok(await quota.reserve(200, 1000));
  });

  it('refuses when the size cannot be found out, and recovers', async () => {
    const quota = new Quota(folder);
    await rm(folder, { recursive: true });
    assert.equal(await quota.reserve(1, GIGABYTE), null);
    assert.equal(quota.usedBytes, null);
    await mkdir(folder);
    await put('e', 500);
    assert.ok(await quota.reserve(1, GIGABYTE));
    assert.equal(quota.usedBytes, 501);
  });

  it('lets a reservation grow as long as there is room', async () => {
    const quota = new Quota(folder);
    const room = await quota.reserve(100, 1000);
    assert.equal(await room.grow(900), true);
    assert.equal(await room.grow(1), false);
    assert.equal(room.bytes, 1000);
  });
});
