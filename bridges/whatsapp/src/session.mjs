/** One bot's connection to WhatsApp by Baileys: pairing, staying connected, receiving into the spool, sending. */
import makeWASocket, {
  DisconnectReason,
  fetchLatestWaWebVersion,
  isJidNewsletter,
  isJidStatusBroadcast,
  jidNormalizedUser,
} from '@whiskeysockets/baileys';
import { BridgeError } from './bridge_error.mjs';
import { makeBaileysLog } from './log.mjs';
import { recordOfReport, recordOfStanza } from './receive.mjs';
import { makeDurableRepository } from './signal_repository.mjs';
import { backOff, pause, timing } from './timing.mjs';
import { whatsapp } from './whatsapp.mjs';

const OUTDATED = 405;

export class Session {
  state = 'connecting';
  /** @type {string | null} what the phone scans */
  qr = null;
  /** @type {string | null} */
  detail = null;
  #bot;
  #log;
  #socket = null;
  #attempt = 0;
  #openedAt = 0;
  #timer = null;
  /** @type {Set<(error: Error) => void>} sends that wait for WhatsApp */
  #sends = new Set();
  /** @type {Set<() => void>} downloads that wait for the connection */
  #awaiting = new Set();
  /** @type {WeakMap<Uint8Array, object>} */
  #stanzas = new WeakMap();

  /**
   * @param {object} bot
   * @param {import('./auth_store.mjs').AuthStore} bot.auth
   * @param {import('./spool.mjs').Spool} bot.spool
   * @param {import('./outbox.mjs').Outbox} bot.outbox
   * @param {import('./group_names.mjs').GroupNames} bot.groupNames
   * @param {(id: string) => void} bot.received a message is in the spool
   * @param {() => void} bot.changed
   * @param {import('pino').Logger} log
   */
  constructor(bot, log) {
    this.#bot = bot;
    this.#log = log;
  }

  /** The account, once paired. */
  get me() {
    const me = this.#bot.auth.creds.me;
    return me?.id ? { identifier: jidNormalizedUser(me.id), display_name: me.name ?? null } : null;
  }

  start() {
    this.#become('connecting');
    void this.#reconnect();
  }

  async stop() {
    this.#become('stopped');
    this.#hangUp(new Error('stopped'));
    await this.#bot.auth.settled();
  }

  /** Unlinks the device and forgets the session. */
  async logout() {
    const socket = this.#socket;
    const isConnected = this.state === 'connected';
    this.#become('logged_out');
    if (isConnected) await socket.logout().catch((error) => this.#warn(error, 'unlinking failed'));
    this.#hangUp(new Error('logged out'));
    await this.#bot.auth.clear();
  }

  /**
   * Sends a text; resolves when WhatsApp has taken it.
   * @param {string} recipient
   * @param {string} text
   * @param {string} id
   */
  async send(recipient, text, id) {
    if (this.state !== 'connected') throw new BridgeError(503, 'not_connected', `the bot is ${this.state}`);
    await this.#deliver(recipient, text, id);
  }

  /**
   * Asks the phone that sent a file to upload it again; `media` then has the new path.
   * @param {object} key
   * @param {string} kind
   * @param {object} media
   */
  async askForUpload(key, kind, media) {
    if (this.state !== 'connected') throw new Error('not connected');
    let timer;
    const tooLate = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error('no answer')), timing.reuploadSeconds * 1000);
    });
    try {
      const message = { [`${kind}Message`]: media };
      await Promise.race([this.#socket.updateMediaMessage({ key, message }), tooLate]);
    } finally {
      clearTimeout(timer);
    }
  }

  /** Waits a while for the connection: who cannot reach WhatsApp cannot fetch its files either. */
  async online(signal) {
    if (this.state === 'connected') return;
    let opened;
    const isOpen = new Promise((resolve) => (opened = resolve));
    this.#awaiting.add(opened);
    try {
      await Promise.race([isOpen, pause(timing.downloadOnlineSeconds * 1000, signal)]);
    } finally {
      this.#awaiting.delete(opened);
    }
  }

  /** @param {string} group */
  async groupMetadata(group) {
    if (this.state !== 'connected') return null;
    return this.#socket.groupMetadata(group);
  }

  #become(state, detail = null) {
    if (state !== 'pairing') this.qr = null;
    this.state = state;
    this.detail = detail;
    this.#bot.changed();
  }

  #connect() {
    try {
      const socket = makeWASocket(this.#config());
      this.#socket = socket;
      this.#listen(socket);
    } catch (error) {
      this.#onClose(error);
    }
  }

  #config() {
    const { auth, outbox } = this.#bot;
    return {
      auth: { creds: auth.creds, keys: auth.keys },
      logger: makeBaileysLog(this.#log),
      browser: ['mediamill', 'Chrome', '1.0'],
      ...(whatsapp.socketUrl ? { waWebSocketUrl: whatsapp.socketUrl } : {}),
      ...(whatsapp.version ? { version: whatsapp.version } : {}),
      makeSignalRepository: makeDurableRepository({
        stanzas: this.#stanzas,
        keep: (...decrypted) => this.#keep(...decrypted),
        kept: (id) => this.#bot.received(id),
      }),
      getMessage: async ({ id }) => {
        const text = await outbox.textOf(id ?? '');
        return text === null ? undefined : { conversation: text };
      },
      shouldIgnoreJid: (jid) => isJidStatusBroadcast(jid) || isJidNewsletter(jid),
      emitOwnEvents: false,
      fireInitQueries: false,
      markOnlineOnConnect: false,
      syncFullHistory: false,
      shouldSyncHistoryMessage: () => false,
      transactionOpts: { maxCommitRetries: 5, delayBetweenTriesMs: 500 },
    };
  }

  #listen(socket) {
    const ifCurrent = (work) => (event) => {
      if (socket === this.#socket) work(event);
    };
    socket.ws.prependListener('CB:message', (stanza) => this.#remember(stanza));
    socket.ev.on('creds.update', () => this.#saveCreds());
    socket.ev.on('connection.update', ifCurrent((update) => this.#onUpdate(update)));
    socket.ev.on('messages.upsert', ({ messages }) => this.#onReport(messages, socket.signalRepository));
    socket.ev.on('groups.upsert', (groups) => this.#bot.groupNames.learn(groups));
    socket.ev.on('groups.update', (groups) => this.#bot.groupNames.learn(groups));
  }

  /**
   * Before Baileys has a stanza. The repository sees only ciphertexts: here is the stanza that each came in. And Baileys
   * works on what waited at the server one by one, but lets live messages overtake it: all go the way of those.
   */
  #remember(stanza) {
    stanza.attrs.offline ??= '0';
    for (const child of Array.isArray(stanza.content) ? stanza.content : []) {
      if (child.content instanceof Uint8Array) this.#stanzas.set(child.content, stanza);
    }
  }

  /** Called between decryption and receipt. If the disk fails there must be no receipt: the line is cut. */
  async #keep(stanza, message, bytes, repository) {
    try {
      const record = await recordOfStanza(stanza, message, bytes, this.#bot.auth.creds.me, repository);
      return record && (await this.#bot.spool.put(record));
    } catch (error) {
      this.#log.error({ fault: error.message, stack: error.stack }, 'a message was not spooled');
      // A message that is itself the fault would come again for ever.
      if (!error.syscall) return null;
      const socket = this.#socket;
      void socket?.end(new Error(`a message could not be written: ${error.code ?? error.message}`));
      socket?.ws.socket?.terminate();
      throw error;
    }
  }

  async #onReport(messages, repository) {
    for (const message of messages) {
      try {
        const record = await recordOfReport(message, this.#bot.auth.creds.me, repository);
        const id = record && (await this.#bot.spool.put(record));
        if (id) this.#bot.received(id);
      } catch (error) {
        this.#log.error({ fault: error.message, stack: error.stack }, 'a reported message was not spooled');
      }
    }
  }

  #onUpdate({ connection, qr, lastDisconnect }) {
    if (qr) {
      this.qr = qr;
      this.#attempt = 0;
      this.#become('pairing');
    }
    if (connection === 'open') this.#onOpen();
    if (connection === 'close') this.#onClose(lastDisconnect?.error);
  }

  #onOpen() {
    this.#openedAt = Date.now();
    this.#become('connected');
    for (const resolve of this.#awaiting) resolve();
    this.#log.info('connected to WhatsApp');
    this.#socket.groupFetchAllParticipating().then(
      (groups) => this.#bot.groupNames.learn(Object.values(groups)),
      (error) => this.#log.debug({ fault: error.message }, 'the groups could not be listed'),
    );
  }

  #onClose(error) {
    this.#socket = null;
    this.#failSends('the connection ended');
    if (this.state === 'stopped' || this.state === 'logged_out') return;
    const code = error?.output?.statusCode;
    if (code === DisconnectReason.loggedOut) return this.#onLoggedOut();
    const isExpected = code === DisconnectReason.restartRequired;
    const wait = isExpected ? 0 : this.#nextWait();
    this.#log.info({ code, wait_ms: Math.round(wait) }, 'disconnected from WhatsApp; connecting again');
    this.#become('connecting', isExpected ? null : (error?.message ?? null));
    this.#timer = setTimeout(() => this.#reconnect(code), wait);
  }

  #nextWait() {
    const lastedSeconds = this.#openedAt ? (Date.now() - this.#openedAt) / 1000 : 0;
    if (lastedSeconds > timing.reconnectSettledSeconds) this.#attempt = 0;
    this.#openedAt = 0;
    this.#attempt += 1;
    return backOff(this.#attempt - 1, timing.reconnectFirstSeconds, timing.reconnectLongestSeconds);
  }

  async #reconnect(code) {
    if (code === OUTDATED) await this.#learnVersion();
    await this.#bot.auth.settled();
    if (this.state === 'connecting') this.#connect();
  }

  /** WhatsApp refuses versions that are too old; it says which one is in use. */
  async #learnVersion() {
    const { version, isLatest } = await fetchLatestWaWebVersion({ signal: AbortSignal.timeout(10_000) });
    if (isLatest) whatsapp.version = version;
  }

  /** The owner unlinked the device: the keys are of no more use. */
  async #onLoggedOut() {
    this.#log.warn('logged out by WhatsApp');
    this.#become('logged_out', 'the device was unlinked');
    await this.#bot.auth.clear().catch((error) => this.#warn(error, 'the session stays on disk'));
  }

  #hangUp(reason) {
    clearTimeout(this.#timer);
    const socket = this.#socket;
    this.#socket = null;
    this.#failSends(reason.message);
    void socket?.end(reason);
    socket?.ws.socket?.terminate();
  }

  #failSends(detail) {
    for (const reject of this.#sends) reject(new BridgeError(503, 'not_connected', detail));
  }

  #saveCreds() {
    this.#bot.auth.saveCreds().catch((error) => this.#warn(error, 'credentials were not saved'));
    this.#bot.changed();
  }

  #warn(error, sentence) {
    this.#log.warn({ fault: error.message }, sentence);
  }

  /** Baileys is done when the bytes are on the wire; sent is what the server has confirmed. */
  async #deliver(recipient, text, id) {
    const socket = this.#socket;
    const { ws } = socket;
    let forget;
    const confirmed = new Promise((resolve, reject) => {
      const onAnswer = (node) => (node.attrs.error ? reject(refusedBy(node)) : resolve());
      const timer = setTimeout(
        () => reject(new BridgeError(503, 'not_confirmed', 'WhatsApp did not confirm in time')),
        timing.sendConfirmSeconds * 1000,
      );
      ws.on(`TAG:${id}`, onAnswer);
      this.#sends.add(reject);
      forget = () => {
        clearTimeout(timer);
        ws.off(`TAG:${id}`, onAnswer);
        this.#sends.delete(reject);
      };
    });
    try {
      const sent = socket.sendMessage(recipient, { text, linkPreview: null }, { messageId: id });
      await Promise.all([sent, confirmed]);
    } catch (error) {
      throw error instanceof BridgeError ? error : new BridgeError(503, 'send_failed', error.message);
    } finally {
      forget();
    }
  }
}

function refusedBy(node) {
  return new BridgeError(409, 'refused_by_whatsapp', `WhatsApp refused the message: ${node.attrs.error}`);
}
