// The linked devices: each is one client under test that has been paired, with the public keys it uploaded.
import { generateSignalPubKey } from '@whiskeysockets/baileys';
import { child, childBytes, children, fromBigEndian, SERVER } from './nodes.mjs';

const readKey = (keyNode) => ({
  keyId: fromBigEndian(childBytes(keyNode, 'id')),
  publicKey: Buffer.from(generateSignalPubKey(childBytes(keyNode, 'value'))),
});

const readSignedKey = (keyNode) => ({ ...readKey(keyNode), signature: childBytes(keyNode, 'signature') });

export class Device {
  constructor(fields) {
    this.user = fields.user;
    this.lidUser = fields.lidUser;
    this.number = fields.number;
    this.name = fields.name ?? null;
    this.noiseKey = fields.noiseKey;
    this.identityKey = fields.identityKey;
    this.registrationId = fields.registrationId;
    this.signedPreKey = fields.signedPreKey ?? null;
    this.preKeys = fields.preKeys ?? [];
    this.fewPreKeys = fields.fewPreKeys ?? false;
    this.removed = fields.removed ?? false;
    this.hasHistory = fields.hasHistory ?? false; // the phone sends it once, after pairing
    this.connections = fields.connections ?? 0;
    // not enumerable, so that they are not saved
    Object.defineProperty(this, 'connection', { value: null, writable: true });
    Object.defineProperty(this, 'toldOfPreKeys', { value: null, writable: true });
  }

  #lastWork = Promise.resolve();

  /**
   * Signal work that concerns this device, one after the other. libsignal queues by address for the whole process and
   * runs what waited in the async context of whoever came first, and so in a transaction of Baileys' that is over.
   */
  alone(work) {
    const turn = this.#lastWork.then(work);
    this.#lastWork = turn.catch(() => {});
    return turn;
  }

  get jid() {
    return `${this.user}:${this.number}@${SERVER}`;
  }

  get lid() {
    return `${this.lidUser}:${this.number}@lid`;
  }

  /** The same account's phone. */
  get phoneJid() {
    return `${this.user}@${SERVER}`;
  }

  get phoneLid() {
    return `${this.lidUser}@lid`;
  }

  storeBundle(upload) {
    this.registrationId = fromBigEndian(childBytes(upload, 'registration'));
    this.identityKey = childBytes(upload, 'identity');
    this.signedPreKey = readSignedKey(child(upload, 'skey'));
    const known = new Set(this.preKeys.map((key) => key.keyId));
    const fresh = children(child(upload, 'list'), 'key')
      .map(readKey)
      .filter((key) => !known.has(key.keyId));
    this.preKeys.push(...fresh);
    this.toldOfPreKeys = null;
  }

  rotateSignedKey(rotate) {
    this.signedPreKey = readSignedKey(child(rotate, 'skey'));
  }

  get hasBundle() {
    return this.signedPreKey !== null;
  }

  /** Baileys uploads 812 pre-keys when the server has none, and 5 when it has few: many devices pair faster so. */
  get preKeyCount() {
    return this.preKeys.length || (this.fewPreKeys ? 1 : 0);
  }

  takeBundle() {
    const preKey = this.preKeys.shift();
    return this.#bundle(this.signedPreKey, preKey);
  }

  /** The keys that a retry receipt may carry are fresher than those that were uploaded. */
  bundleFromRetry(receipt) {
    const keys = child(receipt, 'keys');
    if (!keys) return this.takeBundle();
    return this.#bundle(readSignedKey(child(keys, 'skey')), readKey(child(keys, 'key')));
  }

  #bundle(signedPreKey, preKey) {
    const identityKey = Buffer.from(generateSignalPubKey(this.identityKey));
    return { registrationId: this.registrationId, identityKey, signedPreKey, preKey };
  }
}

export class Devices {
  #byJid = new Map();

  constructor(saved = []) {
    for (const fields of saved) this.add(new Device(fields));
  }

  toJSON() {
    return this.all();
  }

  all() {
    return [...this.#byJid.values()];
  }

  add(device) {
    this.#byJid.set(device.jid, device);
    return device;
  }

  get(jid) {
    return this.#byJid.get(jid);
  }

  ofUser(user) {
    return this.all().filter((device) => device.user === user && !device.removed);
  }

  /** A device named by its jid, by its phone number, or not at all when there is only one. */
  find(name) {
    if (!name) return this.#only(this.all());
    return this.get(name) ?? this.#only(this.ofUser(String(name).split('@')[0]));
  }

  #only(devices) {
    if (devices.length !== 1) throw new Error(`${devices.length} devices fit, not one`);
    return devices[0];
  }

  nextNumber(user) {
    return (
      Math.max(
        0,
        ...this.all()
          .filter((device) => device.user === user)
          .map((device) => device.number),
      ) + 1
    );
  }
}
