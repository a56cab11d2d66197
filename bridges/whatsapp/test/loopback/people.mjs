// Everybody who is not the client under test: each has real Signal keys, sessions and sender keys.
import {
  addTransactionCapability,
  Curve,
  DEFAULT_CONNECTION_CONFIG,
  encodeWAMessage,
  initAuthCreds,
  jidDecode,
  proto,
  unpadRandomMax16,
} from '@whiskeysockets/baileys';
import { bigEndian, isLid, node, SERVER, silent } from './nodes.mjs';

const KEY_TYPE = Buffer.from([5]);

const memoryKeys = (values) => ({
  get: async (type, ids) => Object.fromEntries(ids.map((id) => [id, values[`${type}:${id}`]])),
  set: async (changes) => {
    for (const [type, byId] of Object.entries(changes)) {
      for (const [id, value] of Object.entries(byId)) {
        if (value == null) delete values[`${type}:${id}`];
        else values[`${type}:${id}`] = value;
      }
    }
  },
});

export class Person {
  #signal;
  #keys;

  constructor({ user, lidUser, number = 0, creds = initAuthCreds(), keys = {}, knowsSenderKey = [] }) {
    this.user = user;
    this.lidUser = lidUser;
    this.number = number; // 0 is the phone
    this.creds = creds;
    this.keys = keys;
    this.knowsSenderKey = new Set(knowsSenderKey); // "group author device" that has our sender key
    this.#keys = addTransactionCapability(memoryKeys(keys), silent, {
      maxCommitRetries: 1,
      delayBetweenTriesMs: 1,
    });
    const signalOf = DEFAULT_CONNECTION_CONFIG.makeSignalRepository;
    this.#signal = signalOf({ creds, keys: this.#keys }, silent, async () => []);
  }

  get pn() {
    return `${this.user}@${SERVER}`;
  }

  get lid() {
    return `${this.lidUser}@lid`;
  }

  get names() {
    return { user: this.user, lidUser: this.lidUser };
  }

  toJSON() {
    const { user, lidUser, number, creds, keys } = this;
    return { user, lidUser, number, creds, keys, knowsSenderKey: [...this.knowsSenderKey] };
  }

  /** One `enc` node for a linked device; a session is opened with the device's own pre-keys if there is none. */
  async encrypt(device, message, attrs = {}) {
    const { exists } = await this.#signal.validateSession(device.jid);
    if (!exists) await this.openSession(device, device.takeBundle());
    const bytes = encodeWAMessage(message);
    const { type, ciphertext } = await device.alone(() =>
      this.#signal.encryptMessage({ jid: device.jid, data: bytes }),
    );
    return node('enc', { v: '2', type, ...attrs }, ciphertext);
  }

  async openSession(device, bundle) {
    await device.alone(() => this.#signal.injectE2ESession({ jid: device.jid, session: bundle }));
  }

  /** `enc` nodes of a group message: the sender key first, to a device that does not have it yet. */
  async encryptForGroup(device, group, author, message, attrs = {}) {
    const { ciphertext, senderKeyDistributionMessage } = await this.#signal.encryptGroupMessage({
      group,
      meId: author,
      data: encodeWAMessage(message),
    });
    const known = `${group} ${author} ${device.jid}`;
    const nodes = [];
    if (!this.knowsSenderKey.has(known)) {
      nodes.push(await this.encrypt(device, senderKeyMessage(group, senderKeyDistributionMessage)));
      this.knowsSenderKey.add(known);
    }
    return [...nodes, node('enc', { v: '2', type: 'skmsg', ...attrs }, ciphertext)];
  }

  /** A group message again for a device that could not read it: to it alone, and with the sender key. */
  async encryptAgainForGroup(device, group, author, message, attrs) {
    const axolotl = await this.#signal.getSenderKeyDistributionMessage({ group, meId: author });
    return this.encrypt(device, { ...message, ...senderKeyMessage(group, axolotl) }, attrs);
  }

  async decrypt(device, enc, group = null) {
    const content = Buffer.from(enc.content);
    const { type } = enc.attrs;
    const padded = await device.alone(() =>
      type === 'skmsg'
        ? this.#signal.decryptGroupMessage({ group, authorJid: device.jid, msg: content })
        : this.#signal.decryptMessage({ jid: device.jid, type, ciphertext: content }),
    );
    const message = proto.Message.decode(unpadRandomMax16(padded));
    const item = message.senderKeyDistributionMessage;
    if (item) await this.#signal.processSenderKeyDistributionMessage({ authorJid: device.jid, item });
    return message;
  }

  /** What the server hands out to somebody who wants to write to this person, with a pre-key for one use. */
  async bundleNodes() {
    const { signedPreKey, signedIdentityKey, registrationId } = this.creds;
    const keyId = this.creds.nextPreKeyId++;
    const pair = Curve.generateKeyPair();
    await this.#keys.set({ 'pre-key': { [keyId]: pair } });
    return [
      node('registration', {}, bigEndian(registrationId, 4)),
      node('type', {}, KEY_TYPE),
      node('identity', {}, signedIdentityKey.public),
      node('key', {}, [node('id', {}, bigEndian(keyId, 3)), node('value', {}, pair.public)]),
      node('skey', {}, [
        node('id', {}, bigEndian(signedPreKey.keyId, 3)),
        node('value', {}, signedPreKey.keyPair.public),
        node('signature', {}, signedPreKey.signature),
      ]),
    ];
  }
}

const senderKeyMessage = (groupId, axolotlSenderKeyDistributionMessage) => ({
  senderKeyDistributionMessage: { groupId, axolotlSenderKeyDistributionMessage },
});

export class People {
  #byPn = new Map(); // "user:number"
  #byLid = new Map();

  constructor(saved = []) {
    for (const person of saved) this.#keep(new Person(person));
  }

  toJSON() {
    return [...this.#byPn.values()];
  }

  /** Whoever writes by this phone number or LID, each device with keys of its own; the unknown come into being. */
  of(jid) {
    const { user, device: number = 0 } = jidDecode(jid);
    const known = (isLid(jid) ? this.#byLid : this.#byPn).get(`${user}:${number}`);
    if (known) return known;
    if (number) return this.#keep(new Person({ ...this.of(jid.replace(`:${number}@`, '@')).names, number }));
    return this.meet(isLid(jid) ? { user: `1${user}`, lidUser: user } : { user, lidUser: `9${user}` });
  }

  /** Says which LID belongs to which phone number; that cannot be said otherwise later. */
  meet({ user, lidUser }) {
    const known = this.#byPn.get(`${user}:0`) ?? this.#byLid.get(`${lidUser}:0`);
    if (known && (known.user !== user || known.lidUser !== lidUser)) {
      throw new Error(`${known.user} has been known with the LID ${known.lidUser}`);
    }
    return known ?? this.#keep(new Person({ user, lidUser }));
  }

  #keep(person) {
    this.#byPn.set(`${person.user}:${person.number}`, person);
    this.#byLid.set(`${person.lidUser}:${person.number}`, person);
    return person;
  }
}
