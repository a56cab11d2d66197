/** The whole bridge with unmodified Baileys against a loopback WhatsApp (C40 to C43). */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, beforeEach, describe, it } from 'node:test';
import { ANN, GROUP, Story } from './support/story.mjs';
import { until } from './support/until.mjs';

const PLAIN = randomBytes(150_001);
const FILE = { bytes_base64: PLAIN.toString('base64') };
let story;
let number = 0;

before(async () => {
  story = await Story.begin();
  await story.start();
  await story.pair();
});

after(() => story.end());

beforeEach(() => {
  number += 1;
});

const name = (suffix = '') => `T${number}${suffix}`;
const come = (id) => story.mediamill.message(id);
const bytesOf = (payload) => readFile(join(story.staging, payload.media_processing_id));

describe('the bridge', () => {
  it('pairs, connects, and says who it is', async () => {
    const status = await story.bridge.status('one');
    assert.equal(status.state, 'connected');
    assert.equal(status.qr, null);
    assert.match(status.me.identifier, /^\d+@s\.whatsapp\.net$/);
    assert.equal(status.backend, 'connected');
    await until(() => story.mediamill.statuses.some((one) => one.state === 'pairing' && one.qr));
    await until(() => story.mediamill.statuses.at(-1)?.state === 'connected');
  });

  it('brings a text with everything that is known of it', async () => {
    await story.push({ kind: 'text', text: 'Good morning', id: name(), t: 1_794_000_000 });
    const payload = await come(name());
    assert.equal(payload.message, 'Good morning');
    assert.equal(payload.sender, ANN);
    assert.equal(payload.display_name, 'Ann');
    assert.equal(payload.direction, 'incoming');
    assert.equal(payload.originating_time, 1_794_000_000);
    assert.equal(payload.alternate_identifiers.length, 1);
    assert.match(payload.alternate_identifiers[0], /@lid$/);
  });

  it('brings every kind of media with its caption and the very bytes', async () => {
    const kinds = ['image', 'video', 'audio', 'document', 'sticker'];
    for (const kind of kinds) {
      await story.push({ kind, ...FILE, caption: kind === 'image' ? 'look' : undefined, file_name: 'a.pdf', id: name(kind) });
    }
    const payloads = await Promise.all(kinds.map((kind) => come(name(kind))));
    for (const payload of payloads) assert.deepEqual(await bytesOf(payload), PLAIN);
    assert.equal(payloads[0].message, 'look');
    assert.equal(payloads[2].mime_type, 'audio/ogg; codecs=opus');
    assert.equal(payloads[3].original_filename, 'a.pdf');
    assert.equal(new Set(payloads.map((payload) => payload.media_processing_id)).size, 5);
  });

  it('brings the pictures of an album, and not its frame', async () => {
    const items = [{ kind: 'image', ...FILE, caption: 'one' }, { kind: 'video', ...FILE }];
    await story.push({ kind: 'album', items, id: name() });
    await Promise.all([come(name('-1')), come(name('-2'))]);
    await story.push({ kind: 'text', text: 'after', id: name('after') });
    await come(name('after'));
    assert.equal(story.timesStored(name()), 0);
  });

  it('brings a message of a group with the group, its name, and who wrote', async () => {
    const group = { id: GROUP, subject: 'Friends' };
    const from = { from: '777000111@lid', from_pn: '491708888888@s.whatsapp.net', from_lid: '777000111@lid' };
    await story.push({ kind: 'text', text: 'hello all', id: name('a'), group, ...from });
    await story.push({ kind: 'text', text: 'again', id: name('b'), group, ...from });
    const [first, second] = [await come(name('a')), await come(name('b'))];
    assert.equal(first.sender, GROUP);
    assert.deepEqual(first.group, { identifier: GROUP, display_name: 'Friends' });
    assert.equal(first.actual_sender.identifier, '491708888888@s.whatsapp.net');
    assert.deepEqual(first.actual_sender.alternate_identifiers, ['777000111@lid']);
    assert.equal(second.message, 'again');
  });

  it('knows a person by telephone number even when only the LID comes', async () => {
    const from = { from: '777000222@lid', from_pn: '491707777777@s.whatsapp.net', from_lid: '777000222@lid' };
    await story.push({ kind: 'text', text: 'first', id: name('a'), ...from });
    await come(name('a'));
    await story.push({ kind: 'text', text: 'second', id: name('b'), ...from, alternate: false });
    assert.equal((await come(name('b'))).sender, '491707777777@s.whatsapp.net');
  });

  it('brings what the owner writes on his telephone as outgoing', async () => {
    await story.push({ kind: 'text', text: 'mine', id: name(), from_me: true, recipient: ANN });
    const payload = await come(name());
    assert.equal(payload.direction, 'outgoing');
    assert.equal(payload.recipient_id, ANN);
    assert.equal(payload.sender, (await story.bridge.status('one')).me.identifier);
  });

  it('keeps reactions, deletions and receipts to itself', async () => {
    await story.push({ kind: 'reaction', text: '👍', key: { remoteJid: ANN, id: 'X' }, id: name('r') });
    await story.push({ kind: 'revoke', key: { remoteJid: ANN, id: 'X' }, id: name('d') });
    await story.push({ kind: 'text', text: 'after', id: name('t') });
    await come(name('t'));
    assert.equal(story.timesStored(name('r')) + story.timesStored(name('d')), 0);
  });

  it('does not let a slow download hold up the text after it', async () => {
    await story.push({ kind: 'video', ...FILE, id: name('slow'), faults: { bytes_per_second: 2_000 } });
    await story.push({ kind: 'text', text: 'quick', id: name('quick') });
    await come(name('quick'));
    assert.equal(story.timesStored(name('slow')), 0);
    await story.loopback.post('media', { message_id: name('slow'), faults: [] });
    assert.deepEqual(await bytesOf(await come(name('slow'))), PLAIN);
  });

  it('gets a file on the third try, and one that was gone by a new upload', async () => {
    await story.push({ kind: 'image', ...FILE, id: name('3'), faults: { status: 503, fail_times: 2 } });
    await story.push({ kind: 'image', ...FILE, id: name('g'), faults: { status: 404 } });
    for (const id of [name('3'), name('g')]) {
      const payload = await come(id);
      assert.equal(payload.mime_type, 'image/jpeg');
      assert.deepEqual(await bytesOf(payload), PLAIN);
    }
  });

  it('sends as corrupt what cannot be had, with its caption, and leaves no file', async () => {
    await story.push({ kind: 'image', ...FILE, caption: 'sad', id: name('f'), faults: { flip_at: 1000 } });
    await story.push({ kind: 'audio', ...FILE, id: name('r'), faults: { reset_after: 1000 } });
    const [flipped, reset] = [await come(name('f')), await come(name('r'))];
    assert.equal(flipped.mime_type, 'media_corrupt_image');
    assert.equal(flipped.message, 'sad');
    assert.equal(reset.mime_type, 'media_corrupt_audio');
    const files = await story.files();
    for (const { media_processing_id: guid } of [flipped, reset]) {
      assert.ok(!files.some((file) => file.startsWith(guid)));
    }
  });

  it('takes a message once that is delivered twice', async () => {
    await story.push({ kind: 'text', text: 'once', id: name() });
    await come(name());
    await story.bridge.empty('one');
    const before = story.mediamill.frames.length;
    await story.loopback.post('redeliver', { to: story.device, id: name() });
    await story.push({ kind: 'text', text: 'after', id: name('after') });
    await come(name('after'));
    assert.deepEqual(story.mediamill.frames.slice(before).map((frame) => frame.payload.message), ['after']);
  });

  it('keeps what comes while mediamill is away, and brings it in order', async () => {
    await story.mediamill.stop();
    for (let count = 0; count < 5; count += 1) await story.push({ kind: 'text', text: `${count}`, id: name(`-${count}`) });
    await until(async () => (await story.bridge.status('one')).spool.waiting === 5);
    await story.mediamill.start();
    await come(name('-4'));
    const texts = story.mediamill.messages.filter((payload) => payload.provider_message_id.startsWith(name('-')));
    assert.deepEqual(texts.map((payload) => payload.message), ['0', '1', '2', '3', '4']);
    await story.bridge.empty('one');
  });

  it('fetches a file again that was deleted before mediamill had its message', async () => {
    const { answer } = story.mediamill;
    story.mediamill.answer = () => null;
    await story.push({ kind: 'image', ...FILE, id: name() });
    const payload = await come(name());
    await rm(join(story.staging, payload.media_processing_id));
    story.mediamill.answer = answer;
    story.mediamill.drop();
    await story.bridge.empty('one');
    assert.deepEqual(await bytesOf(payload), PLAIN);
    const asked = story.mediamill.asked.filter((frame) => frame.payload.provider_message_id === name());
    assert.equal(asked.length, 2, 'mediamill is asked again, which may have the message already');
  });

  it('connects again when WhatsApp drops the line, and gets what waited there', async () => {
    await story.loopback.post('faults', { refuse_connections: 2 });
    await story.loopback.post('drop', { device: story.device });
    await story.push({ kind: 'text', text: 'while away', id: name() });
    assert.equal((await come(name())).message, 'while away');
    await story.bridge.connected('one');
  });

  it('sends a text once however often it is asked, and does not bring it back', async () => {
    const first = await story.send('answer', name());
    assert.equal(first.repeated, false);
    assert.equal((await story.send('answer', name())).repeated, true);
    const sent = (await story.loopback.get('outbox')).filter((one) => one.id === first.provider_message_id);
    assert.equal(sent.length, 1);
    assert.equal(sent[0].times_received, 1);
    assert.equal(sent[0].text, 'answer');
    assert.ok(sent[0].read_by.includes(ANN));
    await story.push({ kind: 'text', text: 'thanks', id: `${name()} after` });
    await come(`${name()} after`);
    assert.equal(story.timesStored(first.provider_message_id), 0);
  });

  it('sends into a group', async () => {
    const { provider_message_id: id } = await story.send('to all', name(), GROUP);
    const sent = (await story.loopback.get('outbox')).find((one) => one.id === id);
    assert.equal(sent.text, 'to all');
  });

  it('does not call sent what WhatsApp has not confirmed, and repeats it under the same id', async () => {
    await story.loopback.post('faults', { lose_acks: 1 });
    const request = { bot_id: 'one', recipient: ANN, text: 'sure?', send_id: name() };
    const { status, body } = await story.bridge.call('POST', '/send', request);
    assert.deepEqual([status, body.code], [503, 'not_connected']);
    await story.bridge.connected('one');
    const { provider_message_id: id } = await story.send('sure?', name());
    const sent = (await story.loopback.get('outbox')).filter((one) => one.id === id);
    assert.equal(sent.length, 1);
    assert.equal(sent[0].times_received, 2);
  });

  it('says so when WhatsApp refuses a message', async () => {
    await story.loopback.post('faults', { refuse_outgoing: 1 });
    const request = { bot_id: 'one', recipient: ANN, text: 'spam', send_id: name() };
    const { status, body } = await story.bridge.call('POST', '/send', request);
    assert.deepEqual([status, body.code], [409, 'refused_by_whatsapp']);
  });

  it('keeps neither texts nor keys in its log', async () => {
    assert.doesNotMatch(story.bridge.log, /Good morning|hello all|private|chainKey|rootKey/);
  });

  it('is logged out when the owner unlinks it, and can be paired anew', async () => {
    await story.loopback.post('stream_error', { device: story.device, reason: 'logged_out' });
    await until(async () => (await story.bridge.status('one')).state === 'logged_out');
    await story.pair({ few_pre_keys: true });
    await story.push({ kind: 'text', text: 'back', id: name() });
    assert.equal((await come(name())).message, 'back');
  });

  it('unlinks the device when it is to log out', async () => {
    const { status } = await story.bridge.post('/logout', { bot_id: 'one' });
    assert.equal(status.state, 'logged_out');
    assert.equal(status.me, null);
    await story.loopback.until(({ devices }) => devices.find((one) => one.device === story.device).removed);
  });
});
