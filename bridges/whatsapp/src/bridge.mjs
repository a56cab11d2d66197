/** All bots of this process, by their ids: the verbs behind the HTTP routes. */
import { randomUUID } from 'node:crypto';
import { Bot } from './bot.mjs';
import { BridgeError } from './bridge_error.mjs';
import { exclusively } from './lock.mjs';
import { Quota } from './quota.mjs';
import { Slots } from './slots.mjs';
import { timing } from './timing.mjs';

const LONGEST_BOT_ID = 200;

export class Bridge {
  /** @type {Map<string, Bot>} */
  #bots = new Map();
  #shared;

  /**
   * @param {{secret: string, data: string, staging: string, backend: string}} settings
   * @param {import('pino').Logger} log
   */
  constructor(settings, log) {
    const quota = new Quota(settings.staging);
    const slots = new Slots(timing.downloadsAtOnceOfAll);
    this.#shared = { ...settings, log, bridgeId: randomUUID(), quota, slots };
  }

  /** @param {Record<string, unknown>} request */
  async initialize(request) {
    const botId = checkBotId(request.bot_id);
    const quotaGb = request.media_storage_quota_gb;
    const bot = await exclusively(`bot ${botId}`, () => this.#initialize(botId, quotaGb));
    return { bot_id: botId, status: bot.status() };
  }

  async #initialize(botId, quotaGb) {
    const known = this.#bots.get(botId);
    if (known && !known.isStopped) {
      known.configure(quotaGb);
      return known;
    }
    const bot = await Bot.open(botId, this.#shared, quotaGb);
    this.#bots.set(botId, bot);
    bot.start();
    return bot;
  }

  /** @param {Record<string, unknown>} request */
  send(request) {
    return this.#find(request).send(request);
  }

  status() {
    return { bots: Object.fromEntries([...this.#bots].map(([botId, bot]) => [botId, bot.status()])) };
  }

  /** @param {Record<string, unknown>} request */
  async stop(request) {
    return this.#withBot(request, (bot) => (bot.isStopped ? null : bot.stop()));
  }

  /** @param {Record<string, unknown>} request */
  async logout(request) {
    return this.#withBot(request, (bot) => bot.logout());
  }

  async close() {
    const running = [...this.#bots.values()].filter((bot) => !bot.isStopped);
    await Promise.allSettled(running.map((bot) => bot.stop()));
  }

  async #withBot(request, work) {
    const bot = this.#find(request);
    await exclusively(`bot ${request.bot_id}`, async () => work(bot));
    return { bot_id: request.bot_id, status: bot.status() };
  }

  #find(request) {
    const bot = this.#bots.get(checkBotId(request.bot_id));
    if (!bot) throw new BridgeError(404, 'unknown_bot', 'no such bot was initialized');
    return bot;
  }
}

function checkBotId(botId) {
  const isText = typeof botId === 'string' && botId.isWellFormed();
  if (isText && botId !== '' && botId.length <= LONGEST_BOT_ID) return botId;
  throw new BridgeError(400, 'invalid', `bot_id is not a text of 1 to ${LONGEST_BOT_ID} characters`);
}
