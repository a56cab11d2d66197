// Linking a new device as a phone does it: QR references, a signed device identity, then a restart of the connection.
import { createHmac, randomBytes } from 'node:crypto';
import { Curve, proto, WA_ADV_ACCOUNT_SIG_PREFIX, WA_ADV_DEVICE_SIG_PREFIX } from '@whiskeysockets/baileys';
import { Device } from './devices.mjs';
import { child, fromBigEndian, node, seconds, SERVER, SERVER_JID } from './nodes.mjs';

const REFERENCES = 6;

export class Pairing {
  #waiting = new Map(); // connection -> {references, noiseKey, data, finish}
  #people;
  #devices;
  #nextPhone;

  constructor({ people, devices }) {
    this.#people = people;
    this.#devices = devices;
    this.#nextPhone = 491700000001;
  }

  /** A client without an account has connected: give it what its QR codes are made of. */
  begin(connection, { noiseKey, payload }) {
    const references = Array.from({ length: REFERENCES }, () => `2@${randomBytes(24).toString('base64url')}`);
    this.#waiting.set(connection, { references, noiseKey, data: payload.devicePairingData });
    const content = references.map((reference) => node('ref', {}, Buffer.from(reference)));
    connection.send(
      node('iq', { from: SERVER_JID, type: 'set', id: `pair-${connection.number}`, xmlns: 'md' }, [
        node('pair-device', {}, content),
      ]),
    );
  }

  forget(connection) {
    this.#waiting.get(connection)?.finish?.reject(new Error('the client went away while pairing'));
    this.#waiting.delete(connection);
  }

  get count() {
    return this.#waiting.size;
  }

  /** The phone scans a QR code. Resolves with the new device once the client has signed. */
  async scan({ qr, phone, name, few_pre_keys }) {
    const [reference, noiseKey, identityKey, advSecret] = qr.slice(qr.indexOf('#') + 1).split(',');
    const [connection, waiting] = this.#find(reference);
    if (waiting.noiseKey.toString('base64') !== noiseKey) throw new Error('the QR code has another noise key');
    if (Buffer.from(waiting.data.eIdent).toString('base64') !== identityKey) {
      throw new Error('the QR code has another identity key');
    }
    const user = String(phone ?? this.#unusedPhone());
    const account = this.#people.of(`${user}@${SERVER}`);
    waiting.device = new Device({
      user,
      lidUser: account.lidUser,
      number: this.#devices.nextNumber(user),
      name,
      fewPreKeys: few_pre_keys,
      noiseKey: waiting.noiseKey,
      identityKey: Buffer.from(waiting.data.eIdent),
      registrationId: fromBigEndian(waiting.data.eRegid),
    });
    waiting.account = account;
    waiting.identity = signIdentity(account, waiting.device);
    const signed = new Promise((resolve, reject) => (waiting.finish = { resolve, reject }));
    connection.send(pairSuccess(connection, waiting, advSecret));
    return signed;
  }

  /** The client's answer to pair-success; true if this node was one. */
  finish(connection, answer) {
    const signNode = answer.attrs.type === 'result' && child(answer, 'pair-device-sign');
    const waiting = this.#waiting.get(connection);
    if (!signNode || !waiting?.device) return false;
    const { device, account, identity } = waiting;
    const { deviceSignature } = proto.ADVSignedDeviceIdentity.decode(child(signNode, 'device-identity').content);
    const accountKey = account.creds.signedIdentityKey.public;
    const signedBytes = Buffer.concat([WA_ADV_DEVICE_SIG_PREFIX, identity.details, device.identityKey, accountKey]);
    if (!Curve.verify(device.identityKey, signedBytes, deviceSignature)) {
      waiting.finish.reject(new Error('the client signed its device identity wrongly'));
      return true;
    }
    this.#waiting.delete(connection);
    this.#devices.add(device);
    connection.send(node('stream:error', { code: '515' }));
    waiting.finish.resolve(device);
    return true;
  }

  #find(reference) {
    for (const [connection, waiting] of this.#waiting) {
      if (waiting.references.includes(reference)) return [connection, waiting];
    }
    throw new Error('no client shows this QR code now');
  }

  #unusedPhone() {
    while (this.#devices.ofUser(String(this.#nextPhone)).length) this.#nextPhone++;
    return this.#nextPhone;
  }
}

const signIdentity = (account, device) => {
  const details = Buffer.from(
    proto.ADVDeviceIdentity.encode({
      rawId: 1,
      timestamp: Number(seconds()),
      keyIndex: device.number,
    }).finish(),
  );
  const { signedIdentityKey } = account.creds;
  const accountSignature = Curve.sign(
    signedIdentityKey.private,
    Buffer.concat([WA_ADV_ACCOUNT_SIG_PREFIX, details, device.identityKey]),
  );
  return { details, accountSignatureKey: signedIdentityKey.public, accountSignature };
};

const pairSuccess = (connection, { device, identity }, advSecret) => {
  const details = proto.ADVSignedDeviceIdentity.encode(identity).finish();
  const hmac = createHmac('sha256', Buffer.from(advSecret, 'base64')).update(details).digest();
  const attrs = { from: SERVER_JID, type: 'set', id: `paired-${connection.number}`, t: seconds(), xmlns: 'md' };
  return node('iq', attrs, [
    node('pair-success', {}, [
      node('device-identity', {}, proto.ADVSignedDeviceIdentityHMAC.encode({ details, hmac }).finish()),
      ...(device.name ? [node('biz', { name: device.name })] : []),
      node('device', { jid: device.jid, lid: device.lid }),
      node('platform', { name: 'android' }),
    ]),
  ]);
};
