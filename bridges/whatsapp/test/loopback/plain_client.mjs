// A plain Baileys client with its credentials in memory; it comes back after a restart as any client does.
import { EventEmitter, once } from 'node:events';
import makeWASocket, {
  BufferJSON,
  DEFAULT_CONNECTION_CONFIG,
  DisconnectReason,
  initAuthCreds,
  WA_CERT_DETAILS,
} from '@whiskeysockets/baileys';
import { silent } from './nodes.mjs';

export function pointBaileysAt(place) {
  WA_CERT_DETAILS.PUBLIC_KEY = Buffer.from(place.root_public_key, 'hex');
  DEFAULT_CONNECTION_CONFIG.waWebSocketUrl = place.socket_url;
}

export class PlainClient extends EventEmitter {
  #creds = initAuthCreds();
  #keys = new Map();
  received = []; // WAMessages in the order they came
  socket = null;
  qr = null;
  lastError = null;

  get me() {
    return this.#creds.me;
  }

  /** True once it has its history: until then Baileys keeps events back and melts them together. */
  get settled() {
    return this.#creds.accountSyncCounter > 0;
  }

  /** Everything that a client would have on its disk now. */
  snapshot() {
    return JSON.stringify({ creds: this.#creds, keys: [...this.#keys] }, BufferJSON.replacer);
  }

  restore(snapshot) {
    const { creds, keys } = JSON.parse(snapshot, BufferJSON.reviver);
    this.#creds = creds;
    this.#keys = new Map(keys);
  }

  connect() {
    const socket = makeWASocket({ auth: { creds: this.#creds, keys: this.#keyStore() }, logger: silent });
    this.socket = socket;
    socket.ev.on('creds.update', (changes) => {
      Object.assign(this.#creds, changes);
      this.emit('change');
    });
    socket.ev.on('messages.upsert', ({ messages }) => this.#take(messages));
    socket.ev.on('connection.update', (update) => this.#follow(socket, update));
  }

  #take(messages) {
    this.received.push(...messages);
    this.emit('change');
  }

  #follow(socket, { qr, connection, lastDisconnect }) {
    if (socket !== this.socket) return;
    if (qr) this.qr = qr;
    if (connection) this.state = connection;
    if (connection === 'close') {
      this.lastError = lastDisconnect?.error?.output?.statusCode;
      if (this.lastError === DisconnectReason.restartRequired) this.connect();
    }
    this.emit('change');
  }

  #keyStore() {
    return {
      get: async (type, ids) => Object.fromEntries(ids.map((id) => [id, this.#keys.get(`${type}:${id}`)])),
      set: async (changes) => {
        for (const [type, byId] of Object.entries(changes)) {
          for (const [id, value] of Object.entries(byId)) {
            if (value == null) this.#keys.delete(`${type}:${id}`);
            else this.#keys.set(`${type}:${id}`, value);
          }
        }
      },
    };
  }

  async until(found) {
    for (;;) {
      const value = found(this);
      if (value) return value;
      await once(this, 'change', { signal: AbortSignal.timeout(60_000) });
    }
  }

  message(id) {
    return this.until(() => this.received.find((message) => message.key.id === id && message.message));
  }

  async close() {
    const { socket } = this;
    this.socket = null;
    await socket.end(undefined);
  }
}
