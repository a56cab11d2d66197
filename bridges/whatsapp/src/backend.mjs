/**
 * The line to mediamill for one bot: a WebSocket that is connected again and again, with a window of frames that have
 * no answer yet. A conversation has one frame on its way at a time, which keeps its order whatever the answers are.
 */
import WebSocket from 'ws';
import { backOff, pause, timing } from './timing.mjs';

const LONGEST_FRAME = 1024 ** 2;

export class Backend {
  #options;
  #log;
  /** @type {WebSocket | null} */
  #socket = null;
  #attempt = 0;
  #isStopped = false;
  #timers = new Set();
  /** @type {Map<string, string[]>} conversation -> ids that wait, oldest first */
  #waiting = new Map();
  /** @type {Map<string, {conversation: string, timer: NodeJS.Timeout}>} id -> frame without an answer */
  #sent = new Map();
  /** Conversations with a frame on its way, or asked to wait. */
  #busy = new Set();

  /**
   * @param {object} options
   * @param {string} options.url
   * @param {string} options.secret
   * @param {string} options.bridgeId
   * @param {(id: string) => Promise<object>} options.frame
   * @param {(id: string) => void} options.onAdmit
   * @param {(id: string) => Promise<void>} options.onAck
   * @param {(id: string, reason: object) => Promise<void>} options.onRefused
   * @param {() => object} options.status
   * @param {() => void} options.changed
   * @param {import('pino').Logger} log
   */
  constructor(options, log) {
    this.#options = options;
    this.#log = log;
  }

  get isConnected() {
    return this.#socket?.readyState === WebSocket.OPEN;
  }

  /** Frames without an answer. */
  get unanswered() {
    return this.#sent.size;
  }

  start() {
    this.#connect();
  }

  /** Says so, and hangs up. */
  async stop() {
    this.#isStopped = true;
    for (const timer of this.#timers) clearTimeout(timer);
    for (const { timer } of this.#sent.values()) clearTimeout(timer);
    const socket = this.#socket;
    if (this.isConnected) {
      this.sendStatus();
      const closed = new Promise((resolve) => socket.once('close', resolve));
      socket.close();
      await Promise.race([closed, pause(timing.backendGoodbyeSeconds * 1000)]);
    }
    socket?.terminate();
  }

  /**
   * A message is ready to be sent.
   * @param {string} id
   * @param {string} conversation
   */
  offer(id, conversation) {
    this.#insert(id, conversation);
    this.#pump();
  }

  sendStatus() {
    if (!this.isConnected) return;
    this.#socket.send(JSON.stringify({ type: 'status', status: this.#options.status() }));
  }

  #insert(id, conversation) {
    const ids = this.#waiting.get(conversation) ?? [];
    let place = ids.length;
    while (place > 0 && ids[place - 1] > id) place -= 1;
    ids.splice(place, 0, id);
    this.#waiting.set(conversation, ids);
  }

  #pump() {
    if (!this.isConnected || this.#isStopped) return;
    for (const [conversation, ids] of this.#waiting) {
      if (this.#sent.size >= timing.backendWindow) return;
      if (this.#busy.has(conversation)) continue;
      const id = ids.shift();
      if (!ids.length) this.#waiting.delete(conversation);
      this.#send(id, conversation);
    }
  }

  async #send(id, conversation) {
    const socket = this.#socket;
    const timer = setTimeout(() => socket.terminate(), timing.backendAnswerSeconds * 1000);
    this.#sent.set(id, { conversation, timer });
    this.#busy.add(conversation);
    try {
      const frame = await this.#options.frame(id);
      if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(frame));
    } catch (error) {
      this.#log.error({ spool_id: id, fault: error.message }, 'a message could not be read for sending');
      if (this.#sent.get(id)?.timer === timer) this.#sendLater(id);
    }
  }

  #connect() {
    const { url, secret, bridgeId } = this.#options;
    const headers = { authorization: `Bearer ${secret}`, 'x-bridge-id': bridgeId };
    const socket = new WebSocket(url, { headers, maxPayload: LONGEST_FRAME, handshakeTimeout: 10_000 });
    this.#socket = socket;
    socket.on('open', () => this.#onOpen(socket));
    socket.on('message', (data) => this.#onFrame(data));
    socket.on('error', (error) => this.#log.debug({ fault: error.message }, 'mediamill is not reached'));
    socket.on('close', (code) => this.#onClose(code));
  }

  #onOpen(socket) {
    this.#attempt = 0;
    this.#log.info('connected to mediamill');
    let isAlive = true;
    socket.on('pong', () => (isAlive = true));
    const ping = setInterval(() => {
      if (!isAlive) return socket.terminate();
      isAlive = false;
      socket.ping();
    }, timing.backendPingSeconds * 1000);
    socket.on('close', () => clearInterval(ping));
    this.#options.changed();
    this.sendStatus();
    this.#pump();
  }

  #onClose(code) {
    if (this.#isStopped) return;
    for (const [id, { conversation, timer }] of this.#sent) {
      clearTimeout(timer);
      this.#insert(id, conversation);
      this.#busy.delete(conversation);
    }
    this.#sent.clear();
    const wait = backOff(this.#attempt, timing.backendFirstSeconds, timing.backendLongestSeconds);
    if (this.#attempt === 0) this.#log.warn({ code }, 'no connection to mediamill; trying again');
    this.#attempt += 1;
    this.#after(wait, () => this.#connect());
    this.#options.changed();
  }

  async #onFrame(data) {
    try {
      const frame = JSON.parse(data.toString());
      await this.#onAnswer(frame);
    } catch (error) {
      this.#log.error({ fault: error.message }, 'a frame of mediamill could not be dealt with');
    }
  }

  async #onAnswer(frame) {
    const id = frame?.spool_id;
    if (frame?.type === 'later') return this.#sendLater(id);
    if (!['ack', 'admit', 'refused'].includes(frame?.type)) return;
    const conversation = this.#answered(id);
    if (frame.type === 'refused') {
      const { code, faults } = frame;
      this.#log.error({ spool_id: id, code, faults }, 'mediamill refused a message');
    }
    if (conversation === null) return;
    try {
      if (frame.type === 'ack') await this.#options.onAck(id);
      else if (frame.type === 'admit') this.#options.onAdmit(id);
      else await this.#options.onRefused(id, frame);
    } finally {
      this.#busy.delete(conversation);
      this.#pump();
      this.#options.changed();
    }
  }

  /** The conversation of a frame that has its answer; null if no such frame is on its way. */
  #answered(id) {
    const sent = this.#sent.get(id);
    if (!sent) return null;
    clearTimeout(sent.timer);
    this.#sent.delete(id);
    return sent.conversation;
  }

  #sendLater(id) {
    const conversation = this.#answered(id);
    if (conversation === null) return;
    this.#insert(id, conversation);
    this.#after(timing.backendLaterSeconds * 1000, () => {
      this.#busy.delete(conversation);
      this.#pump();
    });
  }

  #after(milliseconds, work) {
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      work();
    }, milliseconds);
    this.#timers.add(timer);
  }
}
