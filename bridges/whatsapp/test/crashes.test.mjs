/**
 * The whole bridge killed with -9 at each step between WhatsApp and mediamill: nothing is lost, nothing is stored
 * twice, no file is left over, nothing is sent twice.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { messageId } from '../src/outbox.mjs';
import { ANN, GROUP, Story } from './support/story.mjs';
import { until } from './support/until.mjs';

const PLAIN = randomBytes(90_001);
const FILE = { bytes_base64: PLAIN.toString('base64') };
let story;
let number = 0;

before(async () => {
  story = await Story.begin();
  await story.start();
  await story.pair();
});

after(() => story.end());

/** Has the bridge die at the step, lets something happen, and waits for its death. */
async function dieAt(step, happening) {
  number += 1;
  if (!story.bridge.isRunning) await comeBack(); // a test before this one failed
  await story.crashAt(step);
  await happening();
  assert.equal(await story.bridge.ended(), null, 'killed, not ended');
}

async function comeBack() {
  await story.start();
  await story.bridge.initialize('one');
  await story.bridge.connected('one');
}

const atWhatsApp = async (id) => {
  const messages = await story.loopback.get(`messages?device=${story.device}`);
  return messages.find((message) => message.id === id);
};

/** Something that comes after, in the same chat: when it is there, all before it had their chance. */
async function andThen(id, message = {}) {
  await story.push({ kind: 'text', text: 'after', id: `${id}-after`, ...message });
  await story.mediamill.message(`${id}-after`);
  await story.bridge.empty('one');
  // Receipted, so the Signal session is on disk, too: nothing is left that the next step could be mistaken for.
  await until(async () => (await atWhatsApp(`${id}-after`)).receipts.length, 'a receipt');
}

describe('a text is neither lost nor stored twice by a bridge that is killed', () => {
  const points = [
    ['before it is in the spool', 'before rename /spool/', { isReceipted: false }],
    ['after it is in the spool, before the Signal session advances', 'after rename /spool/', { isReceipted: false }],
    ['before the new Signal session is on disk', 'before rename /auth/session-', { isReceipted: false }],
    ['after the new Signal session is on disk, before the receipt', 'after rename /auth/session-', { isReceipted: false }],
    ['after mediamill’s ack, before it is forgotten', 'before rm /spool/', { isReceipted: true }],
    ['after it is forgotten', 'after rm /spool/', { isReceipted: true }],
  ];
  for (const [name, crashAt, { isReceipted }] of points) {
    it(name, async () => {
      const id = `TEXT-${number}`;
      await dieAt(crashAt, () => story.push({ kind: 'text', text: name, id }));
      if (!isReceipted) assert.deepEqual((await atWhatsApp(id)).receipts, [], 'no receipt without the spool');
      await comeBack();
      assert.equal((await story.mediamill.message(id)).message, name);
      await andThen(id);
      assert.equal(story.timesStored(id), 1);
    });
  }
});

describe('the first message of a person is neither lost nor stored twice by a bridge that is killed', () => {
  for (const [name, crashAt] of [
    ['before it is in the spool', 'before rename /spool/'],
    ['before the new Signal session is on disk', 'before rename /auth/session-'],
    ['before the used-up key is removed', 'before rm /auth/pre-key-'],
    ['after the used-up key is removed', 'after rm /auth/pre-key-'],
  ]) {
    it(name, async () => {
      const id = `FIRST-${number}`;
      const from = `4917055500${number}@s.whatsapp.net`;
      await dieAt(crashAt, () => story.push({ kind: 'text', text: name, id, from }));
      await comeBack();
      assert.equal((await story.mediamill.message(id)).message, name);
      await andThen(id, { from });
      assert.equal(story.timesStored(id), 1);
    });
  }
});

describe('the first message of a person in a group is neither lost nor stored twice by a bridge that is killed', () => {
  for (const [name, crashAt] of [
    ['before the sender key is on disk', 'before rename /auth/sender-key-'],
    ['after the sender key is on disk, before the message is in the spool', 'before rename /spool/'],
    ['after the message is in the spool', 'after rename /spool/'],
    ['after the sender key has advanced', 'after rename /auth/sender-key- 2'],
  ]) {
    it(name, async () => {
      const id = `GROUP-${number}`;
      const from = `4917066600${number}@s.whatsapp.net`;
      const group = { id: GROUP, subject: 'Friends' };
      await dieAt(crashAt, () => story.push({ kind: 'text', text: name, id, from, group }));
      await comeBack();
      assert.equal((await story.mediamill.message(id)).message, name);
      await andThen(id, { from, group });
      assert.equal(story.timesStored(id), 1);
    });
  }
});

describe('a picture is neither lost, nor stored twice, nor left over, by a bridge that is killed', () => {
  const points = [
    ['before it is in the spool', 'before rename /spool/'],
    ['after it is in the spool', 'after rename /spool/'],
    ['before the file has its name', 'before rename /staging/'],
    ['after the file has its name', 'after rename /staging/'],
    ['before the end of the download is written down', 'before rename /spool/ 2'],
    ['after the end of the download is written down', 'after rename /spool/ 2'],
    ['after mediamill’s ack, before it is forgotten', 'before rm /spool/'],
  ];
  for (const [name, crashAt] of points) {
    it(name, async () => {
      const id = `IMAGE-${number}`;
      const filesBefore = (await story.files()).length;
      await dieAt(crashAt, () => story.push({ kind: 'image', ...FILE, caption: name, id }));
      await comeBack();
      const payload = await story.mediamill.message(id);
      await andThen(id);
      assert.equal(payload.message, name);
      assert.equal(payload.mime_type, 'image/jpeg');
      assert.deepEqual(await readFile(join(story.staging, payload.media_processing_id)), PLAIN);
      const guids = new Set(
        story.mediamill.frames.filter((frame) => frame.payload.provider_message_id === id)
          .map((frame) => frame.payload.media_processing_id),
      );
      assert.equal(guids.size, 1, 'one GUID, however often it was sent');
      assert.equal((await story.files()).length, filesBefore + 1, 'one file');
    });
  }
});

describe('an answer is sent once by a bridge that is killed', () => {
  for (const [name, crashAt, times] of [
    ['before it is written down', 'before rename /outbox/', 1],
    ['after it is written down, before it is sent', 'after rename /outbox/', 1],
    ['after it is sent, before it is written down as sent', 'before rename /outbox/ 2', 2],
    ['after it is written down as sent', 'after rename /outbox/ 2', 1],
  ]) {
    it(name, async () => {
      const sendId = `send-${number}`;
      await dieAt(crashAt, async () => {
        await assert.rejects(story.send(name, sendId), 'the caller learns nothing');
      });
      await comeBack();
      const { provider_message_id: id } = await story.send(name, sendId);
      assert.equal(id, messageId('one', sendId));
      const sent = (await story.loopback.get('outbox')).filter((one) => one.text === name);
      assert.equal(sent.length, 1, 'one message to WhatsApp');
      assert.equal(sent[0].times_received, times);
    });
  }
});

describe('a bridge whose disk takes nothing', () => {
  it('gives no receipt, and brings the message when the disk is well again', async () => {
    number += 1;
    await story.restart();
    const id = `DISK-${number}`;
    const spool = join(story.folder, 'data', 'bot-one', 'spool');
    const { rename } = await import('node:fs/promises');
    await rename(spool, `${spool}.away`);
    await story.push({ kind: 'text', text: 'patience', id });
    await until(async () => (await atWhatsApp(id)).deliveries >= 2, 'a second delivery');
    assert.deepEqual((await atWhatsApp(id)).receipts, []);
    await rename(`${spool}.away`, spool);
    assert.equal((await story.mediamill.message(id)).message, 'patience');
    await andThen(id);
    assert.equal(story.timesStored(id), 1);
    assert.ok(!(await readdir(spool)).some((file) => file.endsWith('.tmp')));
  });
});
