// The loopback WhatsApp against plain, unmodified Baileys: what the bridge's tests and the stories stand on.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { downloadEncryptedContent, getMediaKeys } from '@whiskeysockets/baileys';
import { LoopbackProcess } from './loopback_process.mjs';
import { PlainClient, pointBaileysAt } from './plain_client.mjs';

console.info = () => {}; // libsignal prints its sessions
console.warn = () => {};

const ANN = '491709999999@s.whatsapp.net';
const BEN_LID = '777000111@lid';
const BEN = '491708888888@s.whatsapp.net';
const GROUP = '120363000000000001@g.us';
const PRELOAD = new URL('./preload.mjs', import.meta.url).href;
const PLAIN = randomBytes(200_003);

let wa;
let folder;
let photo;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'loopback-test-'));
  photo = join(folder, 'photo.bin');
  await writeFile(photo, PLAIN);
  wa = await LoopbackProcess.start(join(folder, 'state'));
  pointBaileysAt(wa.place);
});

after(async () => {
  await wa.stop();
  await rm(folder, { recursive: true, force: true });
  // Baileys leaves timers of up to 30 seconds behind
  setImmediate(() => process.exit());
});

async function pair(request = {}) {
  const client = new PlainClient();
  client.connect();
  const qr = await client.until(() => client.qr);
  const { device } = await wa.post('scan', { qr, few_pre_keys: true, ...request });
  await online(device);
  await client.until(() => client.settled);
  return { client, device };
}

const online = (device) => wa.until(({ devices }) => devices.some((one) => one.device === device && one.online));

/** Waits until nothing is on its way to the device, not even its history. */
const quiet = (device) =>
  wa.until(
    ({ devices, messages }) =>
      Object.keys(messages[device]).length > 0 && devices.find((one) => one.device === device).undelivered.length === 0,
  );

const sent = (device, count) =>
  wa.until(({ devices }) => devices.some((one) => one.device === device && one.sent === count));

const seen = (client, id) => client.received.filter((message) => message.key.id === id && message.message).length;

async function fetchMedia(media, type) {
  const keys = await getMediaKeys(media.mediaKey, type);
  const stream = await downloadEncryptedContent(`${wa.place.media_origin}${media.directPath}`, keys);
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return Buffer.concat(chunks);
}

describe('a loopback WhatsApp', { timeout: 180_000 }, () => {
  it('pairs a fresh device by QR code, which then logs in and asks nothing that is not known', async () => {
    const { client, device } = await pair({ name: 'Bot', few_pre_keys: false });
    assert.equal(client.me.id, device);
    assert.equal(client.me.name, 'Bot');
    const state = await wa.get('state');
    assert.deepEqual(state.unknown_queries, []);
    assert.ok(state.devices.find((one) => one.device === device).pre_keys > 800);
    await client.close();
  });

  it('gets few pre-keys when asked to, and more when they run out', async () => {
    const { client, device } = await pair();
    const push = (from, id) => wa.post('push', { to: device, from, kind: 'text', text: 'hello', id });
    const keys = ({ devices }) => devices.find((one) => one.device === device).pre_keys;
    assert.ok(keys(await wa.get('state')) < 20);
    const senders = Array.from({ length: 12 }, (_, index) => `49170555${index}@s.whatsapp.net`);
    for (const sender of senders) await push(sender, `N${sender}`);
    await wa.taken(device, ...senders.map((sender) => `N${sender}`));
    await wa.until((state) => keys(state) >= 5);
    assert.equal(client.received.filter((message) => message.message?.conversation).length, senders.length);
    await client.close();
  });

  it('is found by a Baileys that was started with the preload', () => {
    const program = `import('@whiskeysockets/baileys').then(({ DEFAULT_CONNECTION_CONFIG: c, WA_CERT_DETAILS: d }) =>
      console.log(c.waWebSocketUrl, d.PUBLIC_KEY.toString('hex')))`;
    const { stdout, stderr } = spawnSync(process.execPath, ['--import', PRELOAD, '--eval', program], {
      cwd: import.meta.dirname,
      encoding: 'utf8',
      env: { ...process.env, LOOPBACK_WHATSAPP: JSON.stringify(wa.place) },
    });
    assert.equal(stdout.trim(), `${wa.place.socket_url} ${wa.place.root_public_key}`, stderr);
  });

  it('refuses a QR code that no client shows', async () => {
    await assert.rejects(wa.post('scan', { qr: 'https://wa.me/x#ref,a,b,c,1' }), /no client shows/);
  });

  it('delivers one message of each kind, in order, with media that decrypt to the very bytes', async () => {
    const { client, device } = await pair();
    const push = (spec) => wa.post('push', { to: device, from: ANN, ...spec });
    const media = { file: photo };
    await push({ kind: 'text', text: 'hello', id: 'K1' });
    await push({ kind: 'image', ...media, caption: 'look', id: 'K2' });
    await push({ kind: 'video', ...media, id: 'K3' });
    await push({ kind: 'audio', ...media, id: 'K4' });
    await push({ kind: 'document', ...media, caption: 'read', file_name: 'a.pdf', id: 'K5' });
    await push({ kind: 'sticker', bytes_base64: PLAIN.toString('base64'), id: 'K6' });
    await push({ kind: 'location', latitude: 1.5, longitude: 2.5, id: 'K7' });
    await push({ kind: 'contact', name: 'Cy', vcard: 'BEGIN:VCARD\nEND:VCARD', id: 'K8' });
    await push({ kind: 'reaction', text: '👍', key: { remoteJid: ANN, id: 'K1', fromMe: false }, id: 'K9' });
    const items = [
      { kind: 'image', ...media, caption: 'one' },
      { kind: 'image', ...media },
    ];
    await push({ kind: 'album', items, id: 'K10' });
    await client.message('K10-2');

    const got = client.received.filter((message) => message.key.id.startsWith('K'));
    const ids = ['K1', 'K2', 'K3', 'K4', 'K5', 'K6', 'K7', 'K8', 'K9', 'K10', 'K10-1', 'K10-2'];
    assert.deepEqual(
      got.map((message) => message.key.id),
      ids,
    );
    const [text, image, video, audio, documents, sticker, location, contact, reaction, album, first] = got.map(
      ({ message }) => message,
    );
    assert.equal(text.conversation, 'hello');
    assert.equal(image.imageMessage.caption, 'look');
    assert.equal(audio.audioMessage.ptt, true);
    const { documentMessage } = documents.documentWithCaptionMessage.message;
    assert.equal(documentMessage.fileName, 'a.pdf');
    assert.equal(location.locationMessage.degreesLatitude, 1.5);
    assert.equal(contact.contactMessage.displayName, 'Cy');
    assert.equal(reaction.reactionMessage.key.id, 'K1');
    assert.equal(album.albumMessage.expectedImageCount, 2);
    assert.equal(first.messageContextInfo.messageAssociation.parentMessageKey.id, 'K10');
    assert.deepEqual(await fetchMedia(image.imageMessage, 'image'), PLAIN);
    assert.deepEqual(await fetchMedia(video.videoMessage, 'video'), PLAIN);
    assert.deepEqual(await fetchMedia(audio.audioMessage, 'audio'), PLAIN);
    assert.deepEqual(await fetchMedia(documentMessage, 'document'), PLAIN);
    assert.deepEqual(await fetchMedia(sticker.stickerMessage, 'sticker'), PLAIN);
    await wa.taken(device, ...ids);
    await client.close();
  });

  it('delivers group messages by sender key, LIDs with their phone numbers, and what the owner wrote', async () => {
    const { client, device } = await pair();
    const push = (spec) => wa.post('push', { to: device, kind: 'text', ...spec });
    await wa.post('people', { pn: BEN, lid: BEN_LID });
    const group = { id: GROUP, subject: 'Friends' };
    await push({ group, from: ANN, text: 'in the group', id: 'G1' });
    await push({ group, from: ANN, text: 'and again', id: 'G2' });
    await push({ group, from: BEN_LID, text: 'by lid', id: 'G3' });
    await push({ from: BEN_LID, text: 'direct by lid', id: 'L1' });
    await push({ from: '491709999999:7@s.whatsapp.net', text: 'from my other device', id: 'L2' });
    await push({ from_me: true, recipient: ANN, text: 'mine', id: 'M1' });
    await push({ from_me: true, group, text: 'mine to all', id: 'M2' });
    const [one, two, byLid, direct, other, mine, mineToAll] = await Promise.all(
      ['G1', 'G2', 'G3', 'L1', 'L2', 'M1', 'M2'].map((id) => client.message(id)),
    );
    assert.equal(one.message.conversation, 'in the group');
    assert.equal(one.key.participant, ANN);
    assert.equal(one.key.remoteJid, GROUP);
    assert.equal(two.message.conversation, 'and again');
    assert.equal(byLid.key.participantAlt, BEN);
    assert.equal(direct.key.remoteJidAlt, BEN);
    assert.equal(other.key.remoteJid, ANN);
    assert.equal(mineToAll.key.fromMe, true);
    assert.equal(mineToAll.message.conversation, 'mine to all');
    assert.equal(mine.key.fromMe, true);
    assert.equal(mine.key.remoteJid, ANN);
    assert.equal(mine.message.conversation, 'mine');
    assert.equal((await client.socket.groupMetadata(GROUP)).subject, 'Friends');
    await wa.taken(device, 'G1', 'G2', 'G3', 'L1', 'L2', 'M1', 'M2');
    await client.close();
  });

  it('sends again on the next connection what was not receipted, and not what was', async () => {
    const { client, device } = await pair();
    await wa.post('push', { to: device, from: ANN, kind: 'text', text: 'taken', id: 'R1' });
    await wa.taken(device, 'R1');
    await wa.post('faults', { lose_deliveries: 1 });
    await wa.post('push', { to: device, from: ANN, kind: 'text', text: 'lost on the way', id: 'R2' });
    await client.until(() => client.state === 'close');
    await wa.post('push', { to: device, from: ANN, kind: 'text', text: 'while away', id: 'R3' });
    client.connect();
    await client.message('R3');
    await wa.taken(device, 'R2', 'R3');
    assert.deepEqual(
      ['R1', 'R2', 'R3'].map((id) => seen(client, id)),
      [1, 1, 1],
    );
    const messages = (await wa.get('state')).messages[device];
    assert.deepEqual(
      ['R1', 'R2', 'R3'].map((id) => messages[id].deliveries),
      [1, 2, 1],
    );
    await client.close();
  });

  it('gives a client that was killed before its receipt the same message again', async () => {
    const { client, device } = await pair();
    await quiet(device);
    const asOnDisk = client.snapshot();
    await wa.post('faults', { lose_receipts: 1 });
    await wa.post('push', { to: device, from: ANN, kind: 'text', text: 'twice', id: 'S1' });
    await client.until(() => client.state === 'close');
    client.restore(asOnDisk);
    client.connect();
    await wa.taken(device, 'S1');
    await client.until(() => seen(client, 'S1') === 2);
    assert.equal((await wa.message(device, 'S1')).deliveries, 2);
    await client.close();
  });

  it('delivers the very same bytes again, which a client that kept its keys can read no second time', async () => {
    const { client, device } = await pair();
    await quiet(device);
    await wa.post('faults', { lose_receipts: 1 });
    await wa.post('push', { to: device, from: ANN, kind: 'text', text: 'once', id: 'V1' });
    await client.until(() => client.state === 'close');
    client.connect();
    await wa.taken(device, 'V1');
    assert.deepEqual((await wa.message(device, 'V1')).refusals, ['487']);
    assert.equal(seen(client, 'V1'), 1);
    await client.close();
  });

  it('encrypts anew for a client that cannot read a message', async () => {
    const { client, device } = await pair();
    await quiet(device);
    const before = client.snapshot();
    await wa.post('push', { to: device, from: ANN, kind: 'text', text: 'opens the session', id: 'T1' });
    await wa.post('push', { to: device, from: ANN, group: GROUP, kind: 'text', text: 'sender key', id: 'T0' });
    await wa.taken(device, 'T1', 'T0');
    // Ann now writes in a session that an older copy of the client does not know
    await client.socket.sendMessage(ANN, { text: 'an answer, so that Ann drops her pre-key message' });
    await sent(device, 1);
    await client.close();
    client.restore(before);
    client.connect();
    await online(device);
    await wa.post('push', { to: device, from: ANN, kind: 'text', text: 'readable in the end', id: 'T2' });
    assert.equal((await client.message('T2')).message.conversation, 'readable in the end');
    await wa.taken(device, 'T2');
    assert.equal((await wa.message(device, 'T2')).retries, 1);
    await wa.post('push', { to: device, from: ANN, group: GROUP, kind: 'text', text: 'to all', id: 'T3' });
    assert.equal((await client.message('T3')).message.conversation, 'to all');
    await wa.taken(device, 'T3');
    assert.equal((await wa.message(device, 'T3')).retries, 1);
    await client.close();
  });

  it('reads what a client sends, to a person and to a group, and takes each id once', async () => {
    const { client, device } = await pair();
    await wa.post('groups', { id: GROUP, subject: 'Friends', participants: [ANN, BEN, device] });
    const direct = await client.socket.sendMessage(ANN, { text: 'hi Ann' }, { messageId: 'OUT1' });
    await client.socket.sendMessage(ANN, { text: 'hi Ann' }, { messageId: 'OUT1' });
    await client.socket.sendMessage(GROUP, { text: 'hi all' }, { messageId: 'OUT2' });
    await client.socket.sendMessage(BEN_LID, { text: 'hi Ben' }, { messageId: 'OUT3' });
    await sent(device, 3);
    const outbox = await wa.get(`outbox?device=${device}`);
    assert.equal(direct.key.id, 'OUT1');
    assert.deepEqual(
      outbox.map(({ id, to, text, times_received, unreadable }) => [id, to, text, times_received, unreadable]),
      [
        ['OUT1', ANN, 'hi Ann', 2, []],
        ['OUT2', GROUP, 'hi all', 1, []],
        ['OUT3', BEN_LID, 'hi Ben', 1, []],
      ],
    );
    assert.ok(outbox[1].read_by.includes(ANN) && outbox[1].read_by.includes(BEN));
    await client.close();
  });

  it('makes the media faults that are ordered, and uploads again what was gone', async () => {
    const { client, device } = await pair();
    const push = (id, faults, more = {}) =>
      wa.post('push', { to: device, from: ANN, kind: 'image', file: photo, id, faults, ...more });
    await push('F1', { fail_times: 2, status: 503 });
    await push('F2', { status: 410 });
    await push('F3', { status: 404 }, { reupload: 'refuse' });
    await push('F4', [
      { fail_times: 1, reset_after: 1000 },
      { fail_times: 1, flip_at: 5 },
    ]);
    await client.message('F4');
    const image = async (id) => (await client.message(id)).message.imageMessage;
    const status = async (id) => (await fetch(`${wa.place.media_origin}${(await image(id)).directPath}`)).status;
    assert.deepEqual([await status('F1'), await status('F1'), await status('F1')], [503, 503, 200]);
    assert.deepEqual([await status('F2'), await status('F2')], [410, 410]);
    const updated = await client.socket.updateMediaMessage(await client.message('F2'));
    assert.deepEqual(await fetchMedia(updated.message.imageMessage, 'image'), PLAIN);
    await assert.rejects(client.socket.updateMediaMessage(await client.message('F3')), /re-upload/);
    const whole = async () => {
      const response = await fetch(`${wa.place.media_origin}${(await image('F4')).directPath}`);
      return Buffer.from(await response.arrayBuffer());
    };
    await assert.rejects(whole());
    const [flipped, right] = [await whole(), await whole()];
    assert.equal(flipped.compare(right), flipped[5] > right[5] ? 1 : -1);
    await client.close();
  });

  it('cuts media short, stalls, and sends them slowly', async () => {
    const { client, device } = await pair();
    const faults = [
      { fail_times: 1, truncate_to: 1000 },
      { fail_times: 1, stall_after: 1000 },
      { bytes_per_second: 1_000_000 },
    ];
    await wa.post('push', { to: device, from: ANN, kind: 'image', file: photo, id: 'Q1', faults });
    const { imageMessage } = (await client.message('Q1')).message;
    const address = `${wa.place.media_origin}${imageMessage.directPath}`;
    assert.equal((await (await fetch(address)).arrayBuffer()).byteLength, 1000);
    const stalled = (await fetch(address)).body.getReader();
    let bytes = 0;
    while (bytes < 1000) bytes += (await stalled.read()).value.length;
    const next = stalled.read();
    assert.deepEqual(await fetchMedia(imageMessage, 'image'), PLAIN);
    const undecided = Symbol('undecided');
    assert.equal(await Promise.race([next, undecided]), undecided);
    await stalled.cancel();
    await client.close();
  });

  it('drops, refuses and logs out as ordered', async () => {
    const { client, device } = await pair();
    await wa.post('faults', { refuse_connections: 1 });
    await wa.post('drop', { device });
    await client.until(() => client.state === 'close');
    client.connect();
    await client.until(() => client.state === 'close');
    client.connect();
    await online(device);
    await wa.post('stream_error', { device, reason: 'replaced' });
    await client.until(() => client.lastError === 440);
    client.connect();
    await online(device);
    await wa.post('stream_error', { device, reason: 'logged_out' });
    await client.until(() => client.lastError === 401);
    client.lastError = null;
    client.connect();
    await client.until(() => client.lastError === 401);
  });

  it('forgets a device that logs itself out', async () => {
    const { client, device } = await pair();
    await client.socket.logout();
    await wa.until(({ devices }) => devices.some((one) => one.device === device && one.removed));
  });

  it('takes a message, refuses it, or loses it or its ack, as ordered', async () => {
    const { client, device } = await pair();
    await wa.post('faults', { refuse_outgoing: 1 });
    const ack = once(client.socket.ws, 'CB:ack,class:message');
    await client.socket.sendMessage(ANN, { text: 'refused' }, { messageId: 'P1' });
    assert.equal((await ack)[0].attrs.error, '479');
    await wa.post('faults', { lose_outgoing: 1 });
    await client.socket.sendMessage(ANN, { text: 'lost' }, { messageId: 'P2' });
    await client.until(() => client.state === 'close');
    await wa.post('faults', { lose_acks: 1 });
    client.connect();
    await online(device);
    await client.socket.sendMessage(ANN, { text: 'taken' }, { messageId: 'P3' });
    await client.until(() => client.state === 'close');
    const outbox = await wa.get(`outbox?device=${device}`);
    assert.deepEqual(
      outbox.map(({ id, text }) => [id, text]),
      [['P3', 'taken']],
    );
  });

  it('serves several devices at once and remembers them when it is started again', async () => {
    const [one, two] = await Promise.all([pair({ phone: '491701111111' }), pair({ phone: '491702222222' })]);
    await wa.post('push', { to: one.device, from: ANN, kind: 'text', text: 'to one', id: 'D1' });
    await wa.post('push', { to: two.device, from: ANN, kind: 'text', text: 'to two', id: 'D2' });
    await one.client.message('D1');
    await two.client.message('D2');
    assert.deepEqual([seen(one.client, 'D2'), seen(two.client, 'D1')], [0, 0]);
    await wa.taken(one.device, 'D1');
    await wa.taken(two.device, 'D2');
    await two.client.close();
    await wa.post('push', { to: two.device, from: ANN, kind: 'image', file: photo, id: 'D3' });
    await wa.stop();
    wa = await LoopbackProcess.start(join(folder, 'state'));
    two.client.connect();
    const { message } = await two.client.message('D3');
    assert.deepEqual(await fetchMedia(message.imageMessage, 'image'), PLAIN);
    await two.client.close();
  });
});
