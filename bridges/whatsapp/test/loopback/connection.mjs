// One client's WebSocket: frames in and out, the handshake, then binary nodes in the order they came.
import { decodeBinaryNode, encodeBinaryNode, NOISE_WA_HEADER } from '@whiskeysockets/baileys';
import { NoiseResponder } from './noise.mjs';

export class Connection {
  static #count = 0;
  #socket;
  #noise;
  #received = Buffer.alloc(0);
  #seenIntro = false;
  #work = Promise.resolve();
  #stage = 'hello';
  #onLogin;
  #onNode;

  constructor(socket, serverKeys, { onLogin, onNode, onClose }) {
    this.number = ++Connection.#count;
    this.device = null; // the linked device, once it has logged in
    this.online = false; // everything that waited has been sent
    this.closed = false;
    this.#socket = socket;
    this.#noise = new NoiseResponder(serverKeys);
    this.#onLogin = onLogin;
    this.#onNode = onNode;
    socket.on('message', (bytes) => this.#take(bytes));
    socket.on('error', () => {});
    socket.on('close', () => {
      this.closed = true;
      this.online = false;
      onClose(this);
    });
  }

  send(binaryNode) {
    if (!this.closed) this.#write(this.#noise.seal(encodeBinaryNode(binaryNode)));
  }

  /** Ends at once, as a broken line would. */
  drop() {
    this.closed = true;
    this.online = false;
    this.#socket.terminate();
  }

  #write(bytes) {
    const length = Buffer.alloc(3);
    length.writeUIntBE(bytes.length, 0, 3);
    this.#socket.send(Buffer.concat([length, bytes]));
  }

  #take(bytes) {
    this.#received = Buffer.concat([this.#received, bytes]);
    if (!this.#seenIntro) {
      this.#received = this.#received.subarray(NOISE_WA_HEADER.length);
      this.#seenIntro = true;
    }
    while (this.#received.length >= 3) {
      const length = this.#received.readUIntBE(0, 3);
      if (this.#received.length < length + 3) return;
      const frame = Buffer.from(this.#received.subarray(3, length + 3));
      this.#received = this.#received.subarray(length + 3);
      this.#work = this.#work.then(() => this.#handle(frame)).catch((error) => this.#fail(error));
    }
  }

  async #handle(frame) {
    if (this.closed) return;
    if (this.#stage === 'hello') {
      this.#stage = 'finish';
      this.#write(this.#noise.answerHello(frame));
    } else if (this.#stage === 'finish') {
      this.#stage = 'open';
      await this.#onLogin(this, this.#noise.readFinish(frame));
    } else {
      await this.#onNode(this, await decodeBinaryNode(this.#noise.open(frame)));
    }
  }

  #fail(error) {
    console.error('loopback: connection', this.number, error);
    this.drop();
  }
}
