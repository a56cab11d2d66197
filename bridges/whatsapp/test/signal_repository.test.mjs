/** The order of things between decryption and receipt, with real Signal sessions: first the spool, then the session. */
import assert from 'node:assert/strict';
import { before, beforeEach, describe, it } from 'node:test';
import {
  addTransactionCapability,
  Curve,
  DEFAULT_CONNECTION_CONFIG,
  encodeWAMessage,
  generateSignalPubKey,
  initAuthCreds,
} from '@whiskeysockets/baileys';
import pino from 'pino';
import { makeDurableRepository } from '../src/signal_repository.mjs';

const log = pino({ level: 'silent' });
const SENDER = '491709999999@s.whatsapp.net';
const GROUP = '120363000000000001@g.us';
const ME = '491700000001@s.whatsapp.net';
const makePlain = DEFAULT_CONNECTION_CONFIG.makeSignalRepository;

before(() => {
  console.info = () => {}; // libsignal prints its sessions
  console.warn = () => {};
  console.error = () => {};
});

/** Keys in memory that write down when they are changed. */
class Keys {
  values = new Map();
  events = [];

  async get(type, ids) {
    await null;
    const found = ids.map((id) => [id, this.values.get(`${type} ${id}`)]);
    return Object.fromEntries(found.filter(([, value]) => value !== undefined));
  }

  async set(changes) {
    this.events.push(Object.keys(changes).filter((type) => Object.keys(changes[type]).length).sort().join('+'));
    for (const [type, values] of Object.entries(changes)) {
      for (const [id, value] of Object.entries(values)) {
        if (value === null) this.values.delete(`${type} ${id}`);
        else this.values.set(`${type} ${id}`, value);
      }
    }
  }
}

const transactional = (keys) => addTransactionCapability(keys, log, { maxCommitRetries: 2, delayBetweenTriesMs: 1 });
const noLids = async () => [];

/** An account that receives through our repository. */
class Receiver {
  stanzas = new WeakMap();
  keys = new Keys();
  creds = initAuthCreds();
  preKey = Curve.generateKeyPair();
  keep = async () => 'id';

  constructor() {
    this.keys.values.set('pre-key 1', this.preKey);
    this.auth = { creds: this.creds, keys: transactional(this.keys) };
    const make = makeDurableRepository({
      stanzas: this.stanzas,
      keep: async (stanza, message) => {
        this.keys.events.push('keep begins');
        const id = await this.keep(stanza, message);
        this.keys.events.push('keep ends');
        return id;
      },
      kept: (id) => this.keys.events.push(`kept ${id}`),
    });
    this.repository = make(this.auth, log, noLids);
  }

  get bundle() {
    const { signedPreKey, signedIdentityKey, registrationId } = this.creds;
    const key = (bytes) => Buffer.from(generateSignalPubKey(bytes));
    return {
      registrationId,
      identityKey: key(signedIdentityKey.public),
      signedPreKey: {
        keyId: signedPreKey.keyId,
        publicKey: key(signedPreKey.keyPair.public),
        signature: signedPreKey.signature,
      },
      preKey: { keyId: 1, publicKey: key(this.preKey.public) },
    };
  }

  /** What Baileys does with a stanza from the sender. */
  decrypt({ type, ciphertext }, attrs = { from: SENDER, id: 'M' }) {
    this.stanzas.set(ciphertext, { tag: 'message', attrs, content: [] });
    return this.repository.decryptMessage({ jid: SENDER, type, ciphertext });
  }
}

class Sender {
  constructor() {
    this.auth = { creds: initAuthCreds(), keys: transactional(new Keys()) };
    this.repository = makePlain(this.auth, log, noLids);
  }

  async meet(receiver, jid) {
    await this.repository.injectE2ESession({ jid, session: receiver.bundle });
  }

  encrypt(jid, message) {
    return this.repository.encryptMessage({ jid, data: encodeWAMessage(message) });
  }
}

let sender;
let receiver;

beforeEach(async () => {
  sender = new Sender();
  receiver = new Receiver();
  await sender.meet(receiver, ME);
});

/** As Baileys sends: inside a transaction of its own. */
const send = (text) =>
  receiver.auth.keys.transaction(
    () => receiver.repository.encryptMessage({ jid: SENDER, data: Buffer.from(text) }),
    ME,
  );

const gate = () => {
  let open;
  const promise = new Promise((resolve) => (open = resolve));
  return { promise, open };
};

describe('a decrypted message', () => {
  it('is kept before anything of its session is written, in one go', async () => {
    await receiver.decrypt(await sender.encrypt(ME, { conversation: 'first' }));
    const [begins, ends, changes, kept] = receiver.keys.events;
    assert.deepEqual([begins, ends, kept], ['keep begins', 'keep ends', 'kept id']);
    assert.match(changes, /identity-key.*pre-key.*session/);
    assert.equal(receiver.keys.values.has('pre-key 1'), false);
  });

  it('leaves no trace if it cannot be kept, and can be decrypted again', async () => {
    const encrypted = await sender.encrypt(ME, { conversation: 'first' });
    receiver.keep = () => Promise.reject(new Error('the disk is full'));
    await assert.rejects(receiver.decrypt(encrypted), /the disk is full/);
    assert.deepEqual(receiver.keys.events, ['keep begins']);
    receiver.keep = async () => 'id';
    await receiver.decrypt({ ...encrypted, ciphertext: Buffer.from(encrypted.ciphertext) });
    assert.equal(receiver.keys.events.at(-1), 'kept id');
  });

  it('that nobody wants advances the session all the same', async () => {
    receiver.keep = async () => null;
    await receiver.decrypt(await sender.encrypt(ME, { conversation: 'first' }));
    assert.ok(receiver.keys.values.has('session 491709999999.0'));
    assert.ok(!receiver.keys.events.includes('kept null'));
  });

  it('without a known stanza is decrypted as Baileys would', async () => {
    const { type, ciphertext } = await sender.encrypt(ME, { conversation: 'first' });
    await receiver.repository.decryptMessage({ jid: SENDER, type, ciphertext });
    assert.ok(receiver.keys.values.has('session 491709999999.0'));
    assert.ok(!receiver.keys.events.includes('keep begins'));
  });

  it('that fails to decrypt is not kept', async () => {
    const { type, ciphertext } = await sender.encrypt(ME, { conversation: 'first' });
    ciphertext[Math.floor(ciphertext.length * 0.7)] ^= 1;
    await assert.rejects(receiver.decrypt({ type, ciphertext }));
    assert.deepEqual(receiver.keys.events, []);
  });

  it('of two bots that hear the same person at once: each is kept before its own session is written', async () => {
    const bots = [receiver, new Receiver(), new Receiver()];
    const gates = bots.map(gate);
    const encrypted = [];
    for (const [index, bot] of bots.entries()) {
      const jid = `49170000000${index}@s.whatsapp.net`;
      await sender.meet(bot, jid);
      encrypted.push(await sender.encrypt(jid, { conversation: `to ${index}` }));
      bot.keep = () => gates[index].promise.then(() => 'id');
    }
    const all = Promise.all(bots.map((bot, index) => bot.decrypt(encrypted[index])));
    // They wait at the spool in any order: whoever got there has written nothing.
    while (!bots.every((bot) => bot.keys.events.length)) await new Promise(setImmediate);
    for (const bot of bots) assert.deepEqual(bot.keys.events, ['keep begins']);
    gates.forEach(({ open }) => open());
    await all;
    for (const bot of bots) assert.match(bot.keys.events[2], /session/);
  });

  it('does not slip into the transaction of an answer to the same person', async () => {
    await receiver.decrypt(await sender.encrypt(ME, { conversation: 'first' }));
    receiver.keys.events.length = 0;
    const encrypted = await sender.encrypt(ME, { conversation: 'second' });
    const answer = send('answer');
    const decrypted = receiver.decrypt(encrypted);
    await Promise.all([answer, decrypted]);
    const { events } = receiver.keys;
    const [begins, ends] = [events.indexOf('keep begins'), events.indexOf('keep ends')];
    assert.equal(ends, begins + 1, 'nothing is written while it is being kept');
    assert.equal(events.filter((event) => event.includes('session')).length, 2);
    assert.match(events[ends + 1], /session/);
  });
});

describe('an answer that is sent while a message of the same person is being kept', () => {
  it('is not undone by it, so that what is sent next can be read too', async () => {
    const read = async ({ type, ciphertext }) =>
      Buffer.from(await sender.repository.decryptMessage({ jid: ME, type, ciphertext })).toString();
    await receiver.decrypt(await sender.encrypt(ME, { conversation: 'first' }));
    const second = await sender.encrypt(ME, { conversation: 'second' }); // both in a row, as people write
    assert.equal(await read(await send('hello')), 'hello');
    const { promise, open } = gate();
    receiver.keep = () => promise.then(() => 'id');
    receiver.keys.events.length = 0;
    const decrypted = receiver.decrypt(second);
    while (!receiver.keys.events.includes('keep begins')) await new Promise(setImmediate);
    const sending = send('answer');
    for (let turn = 0; turn < 100; turn += 1) await new Promise(setImmediate); // all the time that it could want
    open();
    const [, answer] = await Promise.all([decrypted, sending]);
    assert.equal(await read(answer), 'answer');
    assert.equal(await read(await send('more')), 'more');
  });
});

describe('a sender key', () => {
  it('is written together with the session of the message that brought it, once', async () => {
    const group = { group: GROUP, meId: SENDER };
    const { ciphertext, senderKeyDistributionMessage } = await sender.repository.encryptGroupMessage({
      ...group,
      data: encodeWAMessage({ conversation: 'to all' }),
    });
    const item = { groupId: GROUP, axolotlSenderKeyDistributionMessage: senderKeyDistributionMessage };
    receiver.keep = async (_stanza, message) => (message.conversation ? 'id' : null);
    const attrs = { from: GROUP, participant: SENDER, id: 'M' };
    await receiver.decrypt(await sender.encrypt(ME, { senderKeyDistributionMessage: item }), attrs);
    assert.match(receiver.keys.events[2], /pre-key.*sender-key.*session/);
    await receiver.repository.processSenderKeyDistributionMessage({ item, authorJid: SENDER });
    assert.equal(receiver.keys.events.length, 3, 'Baileys, which takes it over too, changes nothing');
    receiver.stanzas.set(ciphertext, { tag: 'message', attrs, content: [] });
    await receiver.repository.decryptGroupMessage({ group: GROUP, authorJid: SENDER, msg: ciphertext });
    assert.deepEqual(receiver.keys.events.slice(3), ['keep begins', 'keep ends', 'sender-key', 'kept id']);
  });
});
