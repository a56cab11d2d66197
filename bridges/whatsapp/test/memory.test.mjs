/** A file of 300 MB goes through the bridge to the disk, not through its memory (C41). */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { open, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { after, before, describe, it } from 'node:test';
import { Story } from './support/story.mjs';
import { until } from './support/until.mjs';

const MEGABYTE = 1024 ** 2;
const BLOCK = randomBytes(MEGABYTE);
let story;

before(async () => {
  story = await Story.begin();
  await story.start();
  await story.pair({ few_pre_keys: true });
});

after(() => story.end());

async function memoryBytes(field) {
  const text = await readFile(`/proc/${story.bridge.child.pid}/status`, 'utf8');
  return Number(new RegExp(`${field}:\\s+(\\d+) kB`).exec(text)[1]) * 1024;
}

/** How many blocks the file has, if it has nothing else: comparing takes a part of the time of a digest. */
async function countBlocks(file) {
  let count = 0;
  const handle = await open(file);
  try {
    const block = Buffer.alloc(MEGABYTE);
    for (;;) {
      const { bytesRead } = await handle.read(block, 0, MEGABYTE);
      if (!bytesRead) return count;
      assert.ok(bytesRead === MEGABYTE && block.equals(BLOCK), `another block after ${count}`);
      count += 1;
    }
  } finally {
    await handle.close();
  }
}

describe('a file of 300 MB', { skip: process.platform !== 'linux' }, () => {
  it('costs the bridge no more than a small part of it', async (test) => {
    const file = join(story.folder, 'film');
    await pipeline(Array.from({ length: 300 }, () => BLOCK), createWriteStream(file));
    const before = await memoryBytes('VmRSS');
    await writeFile(`/proc/${story.bridge.child.pid}/clear_refs`, '5');
    await story.push({ kind: 'video', file, id: 'FILM' });
    const find = () => story.mediamill.messages.find((payload) => payload.provider_message_id === 'FILM');
    const payload = await until(find, 'the film', 120);
    const added = (await memoryBytes('VmHWM')) - before;
    test.diagnostic(`300 MB added ${Math.round(added / MEGABYTE)} MB at the peak`);
    assert.equal(await countBlocks(join(story.staging, payload.media_processing_id)), 300);
    assert.ok(added < 100 * MEGABYTE, `${Math.round(added / MEGABYTE)} MB`);
  });
});
