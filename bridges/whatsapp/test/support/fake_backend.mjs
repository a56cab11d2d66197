/** mediamill's end of the line, for tests: takes frames, answers as told, can go away and come back. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import { WebSocketServer } from 'ws';
import { until } from './until.mjs';

export class FakeBackend {
  /** Every message frame that came, also those sent again. */
  frames = [];
  /** Every question whether a message may come in. */
  asked = [];
  statuses = [];
  requests = [];
  /** What to answer to a frame: a frame, or null for silence. */
  answer = ({ spool_id }) => ({ type: 'ack', spool_id });
  /** What to answer to a question. */
  answerAsk = ({ spool_id }) => ({ type: 'admit', spool_id });
  /** The HTTP status with which connections are refused, or null. */
  refuseWith = null;
  #server;
  #sockets;
  port = 0;

  async start() {
    this.#sockets = new WebSocketServer({ noServer: true });
    this.#server = createServer();
    this.#server.on('upgrade', (request, socket, head) => this.#onUpgrade(request, socket, head));
    this.#server.listen(this.port, '127.0.0.1');
    await once(this.#server, 'listening');
    this.port = this.#server.address().port;
    return this;
  }

  get url() {
    return `ws://127.0.0.1:${this.port}`;
  }

  /** Frames by message, the last of each: what a backend that dedupes would have. */
  get messages() {
    return [...new Map(this.frames.map(({ payload }) => [payload.provider_message_id, payload])).values()];
  }

  message(id) {
    return until(() => this.messages.find((payload) => payload.provider_message_id === id), `message ${id}`);
  }

  say(frame) {
    const text = typeof frame === 'string' ? frame : JSON.stringify(frame);
    for (const socket of this.#sockets.clients) socket.send(text);
  }

  drop() {
    for (const socket of this.#sockets.clients) socket.terminate();
  }

  /** The connections stay, but nothing is read from them any more. */
  deafen() {
    for (const socket of this.#sockets.clients) socket.pause();
  }

  async stop() {
    this.drop();
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }

  #onUpgrade(request, socket, head) {
    this.requests.push({ url: request.url, headers: request.headers });
    if (this.refuseWith) return socket.end(`HTTP/1.1 ${this.refuseWith} No\r\ncontent-length: 0\r\n\r\n`);
    this.#sockets.handleUpgrade(request, socket, head, (client) => {
      client.on('message', (data) => this.#onFrame(client, JSON.parse(data)));
      client.on('error', () => {});
    });
  }

  #onFrame(client, frame) {
    if (frame.type === 'status') return this.statuses.push(frame.status);
    const isAsk = frame.type === 'ask';
    (isAsk ? this.asked : this.frames).push(frame);
    const answer = isAsk ? this.answerAsk(frame) : this.answer(frame);
    if (answer) client.send(JSON.stringify(answer));
  }
}
