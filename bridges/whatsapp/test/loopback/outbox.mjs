// What the devices under test send: decrypted with the recipients' own keys, taken once for each id, acknowledged.
import { proto } from '@whiskeysockets/baileys';
import { child, children, isGroup, node, seconds } from './nodes.mjs';

const textOf = (message) =>
  message?.conversation || message?.extendedTextMessage?.text || message?.imageMessage?.caption || null;

const withoutSenderKey = ({ senderKeyDistributionMessage, ...message }) => message;

export class Outbox {
  #entries = new Map();
  #people;
  #groups;
  #faults;
  #onChange;

  constructor({ people, groups, faults, onChange }, saved = []) {
    this.#people = people;
    this.#groups = groups;
    this.#faults = faults;
    this.#onChange = onChange;
    for (const entry of saved) this.#entries.set(`${entry.device} ${entry.id}`, entry);
  }

  toJSON() {
    return this.all();
  }

  all() {
    return [...this.#entries.values()];
  }

  of(device) {
    return this.all().filter((entry) => entry.device === device.jid);
  }

  async take(connection, stanza) {
    const { device } = connection;
    const { id, to } = stanza.attrs;
    if (this.#faults.use('lose_outgoing')) return connection.drop();
    const error = this.#faults.use('refuse_outgoing') ? this.#faults.value('refuse_code') : null;
    if (!error) await this.#accept(connection, stanza);
    if (this.#faults.use('lose_acks')) return connection.drop();
    const attrs = { class: 'message', id, from: to, t: seconds(), ...(error ? { error } : {}) };
    setTimeout(() => connection.send(node('ack', attrs)), this.#faults.value('ack_delay_ms'));
    if (!error && to !== device.phoneJid) this.#confirmDelivery(connection, id, to);
  }

  async #accept(connection, stanza) {
    const { device } = connection;
    const { id, to } = stanza.attrs;
    const key = `${device.jid} ${id}`;
    const known = this.#entries.get(key);
    const read = await this.#read(connection, stanza);
    if (stanza.attrs.category === 'peer') return; // a request to the account's own phone, which answers none
    if (known) {
      known.times_received++;
      if (!known.text) Object.assign(known, this.#summary(read, device)); // it was sent again after a retry receipt
    } else {
      const fields = { id, device: device.jid, to, times_received: 1, received_at: Date.now() };
      this.#entries.set(key, { ...fields, ...this.#summary(read, device) });
    }
    this.#onChange();
  }

  /** Each recipient's copy, read by that recipient: [{person, message} or {person, error}]. */
  async #read(connection, stanza) {
    const { device } = connection;
    const { to, participant } = stanza.attrs;
    const copies = children(child(stanza, 'participants') ?? node('participants'), 'to').map((copy) => ({
      person: this.#people.of(copy.attrs.jid),
      enc: child(copy, 'enc'),
    }));
    const shared = child(stanza, 'enc');
    if (shared && shared.attrs.type !== 'skmsg') {
      copies.push({ person: this.#people.of(participant ?? to), enc: shared });
    }
    const read = [];
    for (const { person, enc } of copies) read.push(await this.#open(connection, stanza, person, enc));
    if (shared?.attrs.type !== 'skmsg') return read;
    const members = this.#groups.members(this.#groups.define({ id: to })).filter(({ user }) => user !== device.user);
    const opened = [];
    for (const person of members) opened.push(await this.#open(connection, stanza, person, shared));
    return opened;
  }

  async #open(connection, stanza, person, enc) {
    try {
      return { person, message: await person.decrypt(connection.device, enc, stanza.attrs.to) };
    } catch (error) {
      await this.#askAgain(connection, stanza, person);
      return { person, error: String(error.message) };
    }
  }

  #summary(read, device) {
    const message =
      read.find((copy) => copy.message && copy.person.user !== device.user)?.message ??
      read.find((copy) => copy.message)?.message.deviceSentMessage?.message;
    return {
      text: textOf(message),
      message: message ? withoutSenderKey(proto.Message.toObject(message, { bytes: String, longs: Number })) : null,
      read_by: read.filter((copy) => copy.message).map((copy) => copy.person.pn),
      unreadable: read.filter((copy) => copy.error).map((copy) => ({ by: copy.person.pn, error: copy.error })),
    };
  }

  #confirmDelivery(connection, id, to) {
    const attrs = { id, from: to, t: seconds() };
    if (!isGroup(to)) connection.send(node('receipt', attrs));
  }

  /** Receipts wait for a device that is away: what it sent, died over and was asked for again is asked for once more. */
  async askAgainAfterAbsence(connection) {
    for (const { id, to, times_received, unreadable } of this.of(connection.device)) {
      if (times_received > 1) continue;
      for (const { by } of unreadable) await this.#askAgain(connection, { attrs: { id, to } }, this.#people.of(by));
    }
  }

  /** A recipient that cannot read its copy says so, with new keys of its own. */
  async #askAgain(connection, stanza, person) {
    const { id, to } = stanza.attrs;
    const inGroup = isGroup(to);
    const [registration, ...keys] = await person.bundleNodes();
    const attrs = { id, type: 'retry', t: seconds(), from: inGroup ? to : person.lid };
    connection.send(
      node('receipt', { ...attrs, ...(inGroup ? { participant: person.lid } : {}) }, [
        node('retry', { count: '1', id, t: seconds(), v: '1', error: '0' }),
        registration,
        node('keys', {}, keys),
      ]),
    );
  }
}
