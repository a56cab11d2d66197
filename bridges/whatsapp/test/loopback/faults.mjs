// Faults that a test has ordered: how often each is still to happen, and delays.
const COUNTED = [
  'refuse_connections', // the next n connections are refused at the door
  'lose_deliveries', // a message counts as sent, but the line breaks before it leaves
  'lose_receipts', // a receipt for a message is not seen: the line breaks when it comes
  'lose_outgoing', // a message from the client is not seen: the line breaks when it comes
  'lose_acks', // a message from the client is taken, but the line breaks before the ack
  'refuse_outgoing', // a message from the client is refused with `refuse_code`
];
const DELAYS = ['answer_delay_ms', 'ack_delay_ms'];

export class Faults {
  #values = { refuse_code: '479', ...Object.fromEntries([...COUNTED, ...DELAYS].map((name) => [name, 0])) };

  toJSON() {
    return this.#values;
  }

  order(changes) {
    for (const [name, value] of Object.entries(changes)) {
      const known = Object.keys(this.#values);
      if (!known.includes(name)) throw new Error(`no fault ${name}; there are ${known.join(', ')}`);
      this.#values[name] = name === 'refuse_code' ? String(value) : Number(value);
    }
  }

  /** True if this fault is to happen now. */
  use(name) {
    if (this.#values[name] <= 0) return false;
    this.#values[name]--;
    return true;
  }

  value(name) {
    return this.#values[name];
  }
}
