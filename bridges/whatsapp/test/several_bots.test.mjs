/** Several bots in one bridge, which is killed again and again while everybody writes: all comes, once, in order. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { ANN, Story } from './support/story.mjs';
import { until } from './support/until.mjs';

const BEN = '491707654321@s.whatsapp.net';
const BOTS = ['a', 'b', 'c'];
const ROUNDS = 36;
const FILE = { bytes_base64: Buffer.alloc(40_000, 7).toString('base64') };
let story;
const devices = {};

before(async () => {
  story = await Story.begin();
  await story.start();
  for (const bot of BOTS) {
    devices[bot] = await story.bridge.pair(bot, story.loopback, { name: bot, few_pre_keys: true });
  }
});

after(() => story.end());

/** Everybody writes to all bots; every fourth message is a picture. */
async function pour(round) {
  for (const bot of BOTS) {
    const isPicture = round % 4 === 0;
    await story.loopback.post('push', {
      to: devices[bot],
      from: round % 3 ? ANN : BEN,
      id: `${bot}-${round}`,
      ...(isPicture ? { kind: 'image', caption: `${round}`, ...FILE } : { kind: 'text', text: `${round}` }),
    });
  }
}

async function killAndStart() {
  await story.bridge.kill();
  await story.start();
  for (const bot of BOTS) await story.bridge.initialize(bot);
}

/** The rounds of the texts of one chat, in the order of their first arrival. */
function roundsOf(bot, sender) {
  const texts = story.mediamill.frames
    .map((frame) => frame.payload)
    .filter((payload) => payload.provider_message_id.startsWith(`${bot}-`) && payload.sender === sender)
    .filter((payload) => payload.media_processing_id === null);
  return [...new Set(texts.map((payload) => Number(payload.message)))];
}

describe('several bots in a bridge that is killed again and again', () => {
  it('get everything, once', async () => {
    for (let round = 0; round < ROUNDS; round += 1) {
      await pour(round);
      if (round % 10 === 9) await killAndStart();
    }
    const ids = BOTS.flatMap((bot) => Array.from({ length: ROUNDS }, (_, round) => `${bot}-${round}`));
    const missing = () => ids.filter((id) => !story.timesStored(id));
    await until(() => missing().length === 0, 'all messages', 60).catch(() => assert.deepEqual(missing(), []));
    for (const bot of BOTS) await story.bridge.empty(bot);
  });

  it('get the texts of each chat in order', () => {
    for (const bot of BOTS) {
      for (const sender of [ANN, BEN]) {
        const rounds = roundsOf(bot, sender);
        assert.ok(rounds.length > 5);
        assert.deepEqual(rounds, rounds.toSorted((left, right) => left - right), `${bot} ${sender}`);
      }
    }
  });

  it('get one file for each picture, and none besides', async () => {
    const pictures = story.mediamill.messages.filter((payload) => payload.media_processing_id);
    assert.equal(pictures.length, BOTS.length * (ROUNDS / 4));
    assert.deepEqual(pictures.map((payload) => payload.media_processing_id).sort(), (await story.files()).sort());
  });
});
