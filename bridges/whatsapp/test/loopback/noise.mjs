// The server's side of the Noise_XX handshake, with a certificate chain of our own, and the sealed frames after it.
import {
  aesDecryptGCM,
  aesEncryptGCM,
  Curve,
  hkdf,
  NOISE_MODE,
  NOISE_WA_HEADER,
  proto,
  sha256,
  WA_CERT_DETAILS,
} from '@whiskeysockets/baileys';

const EMPTY = Buffer.alloc(0);
const { Details } = proto.CertChain.NoiseCertificate;

const counterIv = (counter) => {
  const iv = Buffer.alloc(12);
  iv.writeUInt32BE(counter, 8);
  return iv;
};

export const makeServerKeys = () => ({
  root: Curve.generateKeyPair(),
  intermediate: Curve.generateKeyPair(),
  leaf: Curve.generateKeyPair(),
});

const certificate = (details, signer) => {
  const bytes = Details.encode(details).finish();
  return { details: bytes, signature: Curve.sign(signer.private, bytes) };
};

const certificateChain = ({ root, intermediate, leaf }) =>
  proto.CertChain.encode({
    intermediate: certificate({ serial: 1, issuerSerial: WA_CERT_DETAILS.SERIAL, key: intermediate.public }, root),
    leaf: certificate({ serial: 2, issuerSerial: 1, key: leaf.public }, intermediate),
  }).finish();

export class NoiseResponder {
  #keys;
  #ephemeral = Curve.generateKeyPair();
  #hash = Buffer.from(NOISE_MODE);
  #salt = this.#hash;
  #key = this.#hash;
  #counter = 0;
  #sealed = null;

  constructor(serverKeys) {
    this.#keys = serverKeys;
  }

  /** Takes the client's hello, returns the bytes of the server's hello. */
  answerHello(frame) {
    const theirs = proto.HandshakeMessage.decode(frame).clientHello.ephemeral;
    this.#authenticate(NOISE_WA_HEADER);
    this.#authenticate(theirs);
    this.#authenticate(this.#ephemeral.public);
    this.#mix(Curve.sharedKey(this.#ephemeral.private, theirs));
    const sealedStatic = this.#encrypt(this.#keys.leaf.public);
    this.#mix(Curve.sharedKey(this.#keys.leaf.private, theirs));
    const payload = this.#encrypt(certificateChain(this.#keys));
    const serverHello = { ephemeral: this.#ephemeral.public, static: sealedStatic, payload };
    return proto.HandshakeMessage.encode({ serverHello }).finish();
  }

  /** Takes the client's last handshake frame: who it is and what it wants. */
  readFinish(frame) {
    const { clientFinish } = proto.HandshakeMessage.decode(frame);
    const noiseKey = this.#decrypt(clientFinish.static);
    this.#mix(Curve.sharedKey(this.#ephemeral.private, noiseKey));
    const payload = proto.ClientPayload.decode(this.#decrypt(clientFinish.payload));
    const [read, write] = this.#derive(EMPTY);
    this.#sealed = { read, write, readCounter: 0, writeCounter: 0 };
    return { noiseKey, payload };
  }

  seal(bytes) {
    return aesEncryptGCM(bytes, this.#sealed.write, counterIv(this.#sealed.writeCounter++), EMPTY);
  }

  open(bytes) {
    return aesDecryptGCM(bytes, this.#sealed.read, counterIv(this.#sealed.readCounter++), EMPTY);
  }

  #authenticate(bytes) {
    this.#hash = sha256(Buffer.concat([this.#hash, bytes]));
  }

  #derive(bytes) {
    const keys = hkdf(Buffer.from(bytes), 64, { salt: this.#salt, info: '' });
    return [keys.subarray(0, 32), keys.subarray(32)];
  }

  #mix(bytes) {
    [this.#salt, this.#key] = this.#derive(bytes);
    this.#counter = 0;
  }

  #encrypt(bytes) {
    const sealed = aesEncryptGCM(bytes, this.#key, counterIv(this.#counter++), this.#hash);
    this.#authenticate(sealed);
    return sealed;
  }

  #decrypt(bytes) {
    const opened = aesDecryptGCM(bytes, this.#key, counterIv(this.#counter++), this.#hash);
    this.#authenticate(bytes);
    return opened;
  }
}
