// A push, as a test asks for it, becomes one or more messages in a device's mailbox: who wrote it, where, and how the
// stanza names them (phone number, LID, and the other of the two as WhatsApp adds it).
import { randomBytes } from 'node:crypto';
import { deflateSync } from 'node:zlib';
import { proto } from '@whiskeysockets/baileys';
import { buildMessage, MEDIA_KINDS, stanzaType } from './message.mjs';
import { isLid, seconds, SERVER, userOf } from './nodes.mjs';

const newId = () => `3EB0${randomBytes(9).toString('hex').toUpperCase()}`;

export class Pushes {
  #people;
  #groups;
  #mailbox;
  #media;

  constructor({ people, groups, mailbox, media }) {
    this.#people = people;
    this.#groups = groups;
    this.#mailbox = mailbox;
    this.#media = media;
  }

  /** Returns the ids of the messages, in order; an album is its own message and one for each item. */
  async push(device, spec) {
    this.#introduce(spec);
    const id = await this.#one(device, spec, spec.id ?? newId());
    if (spec.kind !== 'album') return [id];
    const chat = this.#chat(device, spec);
    const participant = spec.group && { participant: spec.from };
    const key = { remoteJid: chat, fromMe: Boolean(spec.from_me), id, ...participant };
    const ids = [id];
    for (const [index, item] of spec.items.entries()) {
      const whole = { ...spec, caption: undefined, ...item };
      ids.push(await this.#one(device, whole, item.id ?? `${id}-${index + 1}`, key));
    }
    return ids;
  }

  async #one(device, spec, id, albumKey) {
    const media = MEDIA_KINDS.includes(spec.kind) ? await this.#media.add(spec, spec.kind, id) : null;
    const bytes = buildMessage(spec, media, albumKey);
    const route = spec.group ? this.#inGroup(device, spec) : this.#direct(device, spec);
    const attrs = {
      id,
      t: String(spec.t ?? seconds()),
      type: stanzaType(spec.kind),
      notify: spec.notify ?? 'Ann',
      ...route.attrs,
      ...spec.attrs,
    };
    const whole = spec.from_me && !spec.group ? asDeviceSent(bytes, this.#chat(device, spec)) : bytes;
    this.#mailbox.add(device, {
      id,
      kind: spec.kind,
      attrs,
      author: route.author,
      group: route.group,
      bytes: whole,
    });
    return id;
  }

  /** `pn` and `lid` together say who is who, before anything else makes a person of one of them. */
  #introduce({ from_pn, from_lid }) {
    if (from_pn && from_lid) this.#people.meet({ user: userOf(from_pn), lidUser: userOf(from_lid) });
  }

  #chat(device, spec) {
    if (spec.group) return spec.group.id ?? spec.group;
    return spec.from_me ? spec.recipient : spec.from;
  }

  #direct(device, spec) {
    const withAlternate = spec.alternate !== false;
    if (!spec.from_me) {
      const attrs = withAlternate ? this.#alternate(spec.from, 'sender') : {};
      return { author: spec.from, group: null, attrs: { from: spec.from, ...attrs } };
    }
    const from = isLid(spec.recipient) ? device.phoneLid : device.phoneJid;
    const attrs = withAlternate ? this.#alternate(spec.recipient, 'peer_recipient') : {};
    return { author: from, group: null, attrs: { from, recipient: spec.recipient, ...attrs } };
  }

  #inGroup(device, spec) {
    const wanted = typeof spec.group === 'string' ? { id: spec.group } : spec.group;
    const author = spec.from_me ? (wanted.addressing_mode === 'lid' ? device.phoneLid : device.phoneJid) : spec.from;
    const participants = [...(wanted.participants ?? []), author, device.phoneJid];
    const mode = isLid(author) ? 'lid' : 'pn';
    const group = this.#groups.define({ addressing_mode: mode, ...wanted, participants });
    const alternate = spec.alternate !== false ? this.#alternate(author, 'participant') : {};
    const attrs = { from: group.id, participant: author, addressing_mode: mode, ...alternate };
    return { author, group: group.id, attrs };
  }

  #alternate(jid, prefix) {
    const person = this.#people.of(jid);
    return isLid(jid) ? { [`${prefix}_pn`]: person.pn } : { [`${prefix}_lid`]: person.lid };
  }

  /** The phone's first message to a newly linked device: its (empty) history. Baileys waits for it. */
  pushHistory(device) {
    const { HistorySyncType } = proto.HistorySync;
    const history = proto.HistorySync.encode({
      syncType: HistorySyncType.INITIAL_BOOTSTRAP,
      progress: 100,
    }).finish();
    const message = {
      kind: 'raw',
      message: {
        protocolMessage: {
          type: 'HISTORY_SYNC_NOTIFICATION',
          historySyncNotification: {
            syncType: 'INITIAL_BOOTSTRAP',
            chunkOrder: 1,
            progress: 100,
            initialHistBootstrapInlinePayload: deflateSync(history),
          },
        },
      },
    };
    const id = newId();
    const attrs = { id, t: seconds(), type: 'text', from: `${device.user}@${SERVER}`, category: 'peer' };
    const bytes = buildMessage(message);
    this.#mailbox.add(device, { id, kind: 'history', attrs, author: device.phoneJid, group: null, bytes });
  }
}

const asDeviceSent = (bytes, destinationJid) => {
  const message = proto.Message.decode(bytes);
  return Buffer.from(proto.Message.encode({ deviceSentMessage: { destinationJid, message } }).finish());
};
