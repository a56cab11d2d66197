// Messages on their way to linked devices. One stays here until the device's receipt for it has come; on every new
// connection all that are left are sent again, the same bytes as before, as WhatsApp does.
import { proto } from '@whiskeysockets/baileys';
import { child, children, node, seconds, SERVER_JID } from './nodes.mjs';

const TAKEN = [undefined, 'inactive', 'sender', 'peer_msg']; // receipts that end a message's stay here
const FEW_PRE_KEYS = 5;

export class Mailbox {
  #entries = new Map();
  #waiting = new Map(); // device jid -> entries in order
  #work = new Map(); // device jid -> the delivery under way
  #people;
  #faults;
  #onChange;

  constructor({ people, faults, onChange }, saved = []) {
    this.#people = people;
    this.#faults = faults;
    this.#onChange = onChange;
    for (const entry of saved) this.#file(entry);
  }

  toJSON() {
    return this.all();
  }

  all() {
    return [...this.#entries.values()].map(({ sentOn, ...entry }) => entry);
  }

  get pushed() {
    return this.#entries.size;
  }

  get delivered() {
    return this.#entries.size - [...this.#waiting.values()].reduce((sum, entries) => sum + entries.length, 0);
  }

  get(device, id) {
    return this.#entries.get(`${device.jid} ${id}`);
  }

  waiting(device) {
    return this.#waiting.get(device.jid) ?? [];
  }

  /** Takes a message: {id, kind, attrs, author, group, bytes}. */
  add(device, fields) {
    if (this.get(device, fields.id)) throw new Error(`${device.jid} has had a message ${fields.id}`);
    this.#file({
      ...fields,
      device: device.jid,
      stanza: null,
      done: false,
      pushed_at: Date.now(),
      deliveries: 0,
      receipts: [],
      refusals: [],
      retries: 0,
      awaitedRefusals: 0,
    });
    this.#onChange();
  }

  /** Sends a message that has been taken already once more, as WhatsApp does now and then. */
  again(device, id) {
    const entry = this.get(device, id);
    if (!entry.done) throw new Error(`${id} waits for its receipt as it is`);
    entry.done = false;
    entry.stanza = null;
    entry.sentOn = null;
    this.#file(entry);
    this.#onChange();
  }

  #file(entry) {
    this.#entries.set(`${entry.device} ${entry.id}`, entry);
    if (entry.done) return;
    if (!this.#waiting.has(entry.device)) this.#waiting.set(entry.device, []);
    this.#waiting.get(entry.device).push(entry);
  }

  /** The device asks for what waited: everything in order, then the word that this was all. */
  async deliverOffline(connection) {
    await this.#inTurn(connection.device, async () => {
      const count = await this.#sendAll(connection, true);
      connection.send(node('ib', { from: SERVER_JID }, [node('offline', { count: String(count) })]));
      connection.online = !connection.closed;
      this.#onChange();
    });
  }

  /** Sends what has not been sent on this connection yet. */
  async deliver(device) {
    await this.#inTurn(device, async () => {
      if (device.connection?.online) await this.#sendAll(device.connection, false);
    });
  }

  async #inTurn(device, task) {
    const turn = (this.#work.get(device.jid) ?? Promise.resolve()).then(task);
    this.#work.set(
      device.jid,
      turn.catch((error) => console.error('loopback: delivery', error)),
    );
    await turn;
  }

  async #sendAll(connection, offline) {
    let count = 0;
    const next = () => this.waiting(connection.device).find((entry) => entry.sentOn !== connection.number);
    for (let entry = next(); entry && !connection.closed; entry = next()) {
      entry.stanza ??= await this.#encrypt(connection.device, entry);
      if (connection.closed) break;
      this.#send(connection, entry, offline ? { offline: String(count) } : {});
      count++;
    }
    return count;
  }

  #send(connection, entry, attrs) {
    entry.sentOn = connection.number;
    entry.awaitedRefusals = 0;
    entry.deliveries++;
    if (this.#faults.use('lose_deliveries')) {
      connection.drop();
    } else {
      const { stanza } = entry;
      connection.send(node('message', { ...entry.attrs, ...stanza.attrs, ...attrs }, stanza.content));
      announceFewPreKeys(connection);
    }
    this.#onChange();
  }

  async #encrypt(device, entry) {
    const author = this.#people.of(entry.author);
    const message = proto.Message.decode(entry.bytes);
    const content = entry.group
      ? await author.encryptForGroup(device, entry.group, entry.author, message)
      : [await author.encrypt(device, message)];
    return { content };
  }

  /** Receipts for one or more messages. */
  async takeReceipt(device, receipt) {
    const { id, type } = receipt.attrs;
    const ids = [id, ...children(child(receipt, 'list') ?? node('list'), 'item').map((item) => item.attrs.id)];
    for (const entry of ids.map((one) => this.get(device, one)).filter(Boolean)) {
      entry.receipts.push(type ?? 'delivered');
      if (TAKEN.includes(type)) this.#finish(entry);
      if (type === 'retry') await this.#retry(device, entry, receipt);
    }
    this.#onChange();
  }

  /** An ack with an error says that the device will not have the message; one after a retry receipt says nothing. */
  takeAck(device, { attrs }) {
    const entry = this.get(device, attrs.id);
    if (!entry || attrs.class !== 'message') return;
    if (attrs.error) entry.refusals.push(attrs.error);
    if (entry.awaitedRefusals > 0) entry.awaitedRefusals--;
    else this.#finish(entry);
    this.#onChange();
  }

  #finish(entry) {
    entry.done = true;
    entry.stanza = null;
    const waiting = this.#waiting.get(entry.device) ?? [];
    this.#waiting.set(
      entry.device,
      waiting.filter((other) => other !== entry),
    );
  }

  /** The device could not read it: the sender opens a new session and sends it again under the same id. */
  async #retry(device, entry, receipt) {
    if (entry.done) return;
    const author = this.#people.of(entry.author);
    const message = proto.Message.decode(entry.bytes);
    const attrs = { count: child(receipt, 'retry').attrs.count };
    await author.openSession(device, device.bundleFromRetry(receipt));
    const enc = entry.group
      ? await author.encryptAgainForGroup(device, entry.group, entry.author, message, attrs)
      : await author.encrypt(device, message, attrs);
    entry.stanza = { content: [enc] };
    entry.retries++;
    if (device.connection) this.#send(device.connection, entry, {});
    entry.awaitedRefusals = 1;
  }
}

/** Tells a device that its pre-keys run out, once for each number of keys left. */
function announceFewPreKeys(connection) {
  const { device } = connection;
  const left = device.preKeys.length;
  if (left >= FEW_PRE_KEYS || device.toldOfPreKeys === left) return;
  device.toldOfPreKeys = left;
  const attrs = { from: SERVER_JID, type: 'encrypt', id: `keys-${connection.number}-${left}`, t: seconds() };
  connection.send(node('notification', attrs, [node('count', { value: String(left) })]));
}
