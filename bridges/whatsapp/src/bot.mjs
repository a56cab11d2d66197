/** One bot: its session, spool, downloads, sends, and its line to mediamill, wired together. */
import { createHash } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { isJidGroup } from '@whiskeysockets/baileys';
import { AuthStore } from './auth_store.mjs';
import { Backend } from './backend.mjs';
import { BridgeError } from './bridge_error.mjs';
import { GroupNames } from './group_names.mjs';
import { Inbox } from './inbox.mjs';
import { Outbox } from './outbox.mjs';
import { limitBytes } from './quota.mjs';
import { Session } from './session.mjs';
import { Spool } from './spool.mjs';

const RECIPIENT = /^(\d{5,20}@(s\.whatsapp\.net|lid)|[\d-]{5,40}@g\.us)$/;
const PHONE_NUMBER = /^\+?(\d{5,20})$/;
const LONGEST_TEXT = 65_536;
const LONGEST_SEND_ID = 200;

export class Bot {
  #botId;
  #bridge;
  #log;
  #limit;
  #auth;
  #spool;
  #outbox;
  #groupNames;
  #inbox;
  #backend;
  #session;
  #lastStatus = '';
  #isStatusDue = false;

  constructor(botId, bridge) {
    this.#botId = botId;
    this.#bridge = bridge;
    this.#log = bridge.log.child({ bot_id: botId });
  }

  /**
   * @param {string} botId
   * @param {object} bridge secret, data, staging, backend, bridgeId, quota, slots, log
   * @param {unknown} quotaGb
   */
  static async open(botId, bridge, quotaGb) {
    const bot = new Bot(botId, bridge);
    const folder = join(bridge.data, folderName(botId));
    bot.#limit = limitBytes(quotaGb);
    bot.#auth = await AuthStore.open(join(folder, 'auth'), bot.#log);
    bot.#spool = await Spool.open(join(folder, 'spool'), bot.#log);
    bot.#outbox = await Outbox.open(join(folder, 'outbox'), botId);
    bot.#groupNames = await GroupNames.open(join(folder, 'groups.json'));
    bot.#wire();
    return bot;
  }

  start() {
    for (const id of this.#spool.ids()) this.#inbox.take(id);
    this.#backend.start();
    this.#session.start();
    this.#bridge.quota.measure().then(() => this.#changed());
  }

  get isStopped() {
    return this.#session.state === 'stopped';
  }

  /** Takes a new configuration over; pairs anew if the bot was logged out. @param {unknown} quotaGb */
  configure(quotaGb) {
    this.#limit = limitBytes(quotaGb);
    if (this.#session.state === 'logged_out') this.#session.start();
    this.#changed();
  }

  async stop() {
    await this.#session.stop();
    await this.#inbox.close();
    await this.#backend.stop();
  }

  logout() {
    return this.#session.logout();
  }

  /** @param {Record<string, unknown>} request */
  async send(request) {
    const recipient = checkRecipient(request.recipient);
    const text = checkText(request.text, 'text', LONGEST_TEXT);
    const sendId = checkText(request.send_id, 'send_id', LONGEST_SEND_ID);
    return this.#outbox.send({ sendId, recipient, text }, (id) => this.#session.send(recipient, text, id));
  }

  status() {
    return {
      state: this.#session.state,
      qr: this.#session.qr,
      me: this.#session.me,
      detail: this.#session.detail,
      spool: { waiting: this.#spool.size, downloading: this.#inbox.downloading },
      quota: { used_bytes: this.#bridge.quota.usedBytes, limit_bytes: this.#limit },
      backend: this.#backend.isConnected ? 'connected' : 'down',
    };
  }

  #wire() {
    const changed = () => this.#changed();
    const received = (id) => this.#inbox.take(id);
    const groupName = (group) => this.#groupNames.get(group);
    this.#inbox = new Inbox(
      {
        spool: this.#spool,
        quota: this.#bridge.quota,
        staging: this.#bridge.staging,
        limitBytes: () => this.#limit,
        slots: this.#bridge.slots,
        online: (signal) => this.#session.online(signal),
        groupName,
        askForUpload: (...request) => this.#session.askForUpload(...request),
        offer: (id, conversation) => this.#offer(id, conversation),
        changed,
      },
      this.#log,
    );
    this.#backend = new Backend(
      {
        url: `${this.#bridge.backend}/api/bridge/whatsapp/${encodeURIComponent(this.#botId)}`,
        secret: this.#bridge.secret,
        bridgeId: this.#bridge.bridgeId,
        frame: (id) => this.#inbox.frame(id),
        onAdmit: (id) => this.#inbox.admit(id),
        onAck: (id) => this.#spool.forget(id),
        onRefused: (id, reason) => this.#refuse(id, reason),
        status: () => this.status(),
        changed,
      },
      this.#log,
    );
    this.#session = new Session(
      {
        auth: this.#auth,
        spool: this.#spool,
        outbox: this.#outbox,
        groupNames: this.#groupNames,
        received,
        changed,
      },
      this.#log,
    );
  }

  /** What is said in a group waits a moment for the group's name, all of it, so that it stays in order. */
  async #offer(id, conversation) {
    if (isJidGroup(conversation)) {
      await this.#groupNames.ensure(conversation, (group) => this.#session.groupMetadata(group));
    }
    this.#backend.offer(id, conversation);
  }

  async #refuse(id, reason) {
    const { guid } = await this.#spool.read(id);
    await this.#spool.refuse(id, reason);
    await rm(join(this.#bridge.staging, guid), { force: true });
  }

  /** Many things change at once: mediamill is told once, and only of what is different. */
  #changed() {
    if (this.#isStatusDue) return;
    this.#isStatusDue = true;
    setTimeout(() => {
      this.#isStatusDue = false;
      const status = JSON.stringify(this.status());
      if (status === this.#lastStatus) return;
      this.#lastStatus = status;
      this.#backend.sendStatus();
    }, 50).unref();
  }
}

function checkRecipient(recipient) {
  const text = typeof recipient === 'string' ? recipient : '';
  const number = PHONE_NUMBER.exec(text)?.[1];
  if (number) return `${number}@s.whatsapp.net`;
  if (RECIPIENT.test(text)) return text;
  throw new BridgeError(400, 'invalid', 'recipient is neither a WhatsApp id nor a telephone number');
}

function checkText(text, name, longest) {
  if (typeof text === 'string' && text !== '' && text.length <= longest) return text;
  throw new BridgeError(400, 'invalid', `${name} is not a text of 1 to ${longest} characters`);
}

/** Ids that are no plain names become a hash: they come from outside. */
function folderName(botId) {
  if (/^[a-z0-9_-]{1,64}$/.test(botId)) return `bot-${botId}`;
  return `bot.${createHash('sha256').update(botId).digest('hex').slice(0, 40)}`;
}
