// Everybody who is not the client under test: each has real Signal keys, sessions and sender keys.
import {
  addTransactionCapability, Curve, DEFAULT_CONNECTION_CONFIG, encodeWAMessage, initAuthCreds, proto, unpadRandomMax16,
} from '@whiskeysockets/baileys';
import { bigEndian, isLid, node, SERVER, silent, userOf } from './nodes.mjs';

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

  constructor({ user, lidUser, creds = initAuthCreds(), keys = {}, knowsSenderKey = [] }) {
    this.user = user;
    this.lidUser = lidUser;
    this.creds = creds;
    this.keys = keys;
    this.knowsSenderKey = new Set(knowsSenderKey); // "group author device" that has our sender key
    this.#keys = addTransactionCapability(memoryKeys(keys), silent, { maxCommitRetries: 1, delayBetweenTriesMs: 1 });
    const signalOf = DEFAULT_CONNECTION_CONFIG.makeSignalRepository;
    this.#signal = signalOf({ creds, keys: this.#keys }, silent, async () => []);
  }

  get pn() {
    return `${this.user}@${SERVER}`;
  }

  get lid() {
    return `${this.lidUser}@lid`;
  }

  toJSON() {
    const { user, lidUser, creds, keys } = this;
    return { user, lidUser, creds, keys, knowsSenderKey: [...this.knowsSenderKey] };
  }

  /** One `enc` node for a linked device; a session is opened with the device's own pre-keys if there is none. */
  async encrypt(device, message, attrs = {}) {
    const { exists } = await this.#signal.validateSession(device.jid);
    if (!exists) await this.openSession(device, device.takeBundle());
    const bytes = encodeWAMessage(message);
    const { type, ciphertext } = await this.#signal.encryptMessage({ jid: device.jid, data: bytes });
    return node('enc', { v: '2', type, ...attrs }, ciphertext);
  }

  async openSession(device, bundle) {
    await this.#signal.injectE2ESession({ jid: device.jid, session: bundle });
  }

  /** `enc` nodes of a group message: the sender key first, to a device that does not have it yet. */
  async encryptForGroup(device, group, author, message, attrs = {}) {
    const { ciphertext, senderKeyDistributionMessage } = await this.#signal.encryptGroupMessage({
      group, meId: author, data: encodeWAMessage(message),
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
    const padded = enc.attrs.type === 'skmsg'
      ? await this.#signal.decryptGroupMessage({ group, authorJid: device.jid, msg: content })
      : await this.#signal.decryptMessage({ jid: device.jid, type: enc.attrs.type, ciphertext: content });
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
  #byUser = new Map();
  #byLidUser = new Map();

  constructor(saved = []) {
    for (const person of saved) this.#keep(new Person(person));
  }

  toJSON() {
    return [...this.#byUser.values()];
  }

  /** The person behind a phone number or a LID; whoever is not known yet comes into being. */
  of(jid) {
    const user = userOf(jid);
    if (isLid(jid)) return this.#byLidUser.get(user) ?? this.meet({ user: `1${user}`, lidUser: user });
    return this.#byUser.get(user) ?? this.meet({ user, lidUser: `9${user}` });
  }

  /** Says which LID belongs to which phone number, for a person who is not known yet. */
  meet({ user, lidUser }) {
    return this.#byUser.get(user) ?? this.#keep(new Person({ user, lidUser }));
  }

  #keep(person) {
    this.#byUser.set(person.user, person);
    this.#byLidUser.set(person.lidUser, person);
    return person;
  }
}
