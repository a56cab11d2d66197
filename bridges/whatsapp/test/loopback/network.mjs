// The loopback WhatsApp itself: logs clients in, hands each of their stanzas to the part that knows it, and makes the
// faults that concern connections.
import { hkdfSync, randomBytes } from 'node:crypto';
import { aesEncryptGCM, proto } from '@whiskeysockets/baileys';
import { Changes } from './changes.mjs';
import { Connection } from './connection.mjs';
import { Devices } from './devices.mjs';
import { Faults } from './faults.mjs';
import { Groups } from './groups.mjs';
import { Mailbox } from './mailbox.mjs';
import { MediaShelf } from './media.mjs';
import { child, node, seconds, SERVER, SERVER_JID } from './nodes.mjs';
import { makeServerKeys } from './noise.mjs';
import { Outbox } from './outbox.mjs';
import { Pairing } from './pairing.mjs';
import { People } from './people.mjs';
import { Pushes } from './push.mjs';
import { Queries } from './queries.mjs';

const NO_SUCH_MEDIA = 2; // MediaRetryNotification.ResultType.NOT_FOUND

export class LoopbackWhatsApp {
  #connections = new Set();
  #queries;
  #pairing;
  #pushes;

  constructor({ mediaFolder, saved = {} }) {
    this.keys = saved.keys ?? makeServerKeys();
    this.changes = new Changes();
    this.faults = new Faults();
    this.people = new People(saved.people);
    this.devices = new Devices(saved.devices);
    this.groups = new Groups(this.people, saved.groups);
    this.media = new MediaShelf(mediaFolder, this.changes.mark, saved.media);
    const parts = { people: this.people, groups: this.groups, faults: this.faults, onChange: this.changes.mark };
    this.mailbox = new Mailbox(parts, saved.mailbox);
    this.outbox = new Outbox(parts, saved.outbox);
    this.#pairing = new Pairing(this);
    this.#pushes = new Pushes(this);
    this.#queries = new Queries({
      people: this.people,
      devices: this.devices,
      groups: this.groups,
      mediaHost: () => 'mmg.whatsapp.net',
      onLogout: (question, device) => this.#unlink(question, device),
    });
  }

  toJSON() {
    const { keys, people, devices, groups, media, mailbox, outbox } = this;
    return { keys, people, devices, groups, media, mailbox, outbox };
  }

  // --- connections

  accept(socket) {
    const connection = new Connection(socket, this.keys, {
      onLogin: (one, login) => this.#login(one, login),
      onNode: (one, stanza) => this.#take(one, stanza),
      onClose: (one) => this.#closed(one),
    });
    this.#connections.add(connection);
    this.changes.mark();
  }

  #closed(connection) {
    this.#connections.delete(connection);
    this.#pairing.forget(connection);
    if (connection.device?.connection === connection) connection.device.connection = null;
    this.changes.mark();
  }

  #login(connection, { noiseKey, payload }) {
    if (!payload.username) {
      this.#pairing.begin(connection, { noiseKey, payload });
      return this.changes.mark();
    }
    const device = this.devices.get(`${payload.username}:${payload.device ?? 0}@${SERVER}`);
    if (!device || device.removed || !device.noiseKey.equals(noiseKey)) {
      connection.send(node('failure', { reason: '401', location: 'loopback' }));
      return undefined;
    }
    this.#replaceOlder(device, connection);
    connection.send(
      node('success', {
        t: seconds(),
        props: '0',
        companion_enc_static: '',
        creation: '1',
        lid: device.lid,
      }),
    );
    return this.changes.mark();
  }

  #replaceOlder(device, connection) {
    const older = device.connection;
    older?.send(node('stream:error', {}, [node('conflict', { type: 'replaced' })]));
    older?.drop();
    device.connection = connection;
    device.connections++;
    connection.device = device;
  }

  /** Breaks lines: those of one device, or all. */
  drop(name) {
    const device = name ? this.devices.find(name) : null;
    const chosen = [...this.#connections].filter((connection) => !device || connection.device === device);
    for (const connection of chosen) connection.drop();
    return chosen.length;
  }

  /** Ends a device's stream with an error: 'replaced', 'logged_out', 'restart', or any code. */
  streamError(name, reason) {
    const device = this.devices.find(name);
    const errors = {
      replaced: [{}, [node('conflict', { type: 'replaced' })]],
      logged_out: [{ code: '401' }, [node('conflict', { type: 'device_removed' })]],
      restart: [{ code: '515' }, undefined],
    };
    const [attrs, content] = errors[reason] ?? [{ code: String(reason) }, undefined];
    if (reason === 'logged_out') device.removed = true;
    device.connection?.send(node('stream:error', attrs, content));
    this.changes.mark();
  }

  #unlink(question, device) {
    if (child(question, 'remove-companion-device')) device.removed = true;
    return undefined;
  }

  // --- what a test orders

  async scan(request) {
    const device = await this.#pairing.scan(request);
    this.changes.mark();
    return device;
  }

  async push(spec) {
    const device = this.devices.find(spec.to);
    const ids = await this.#pushes.push(device, spec);
    this.mailbox.deliver(device).catch((error) => console.error('loopback: push', error));
    return { device: device.jid, ids };
  }

  async redeliver(name, id) {
    const device = this.devices.find(name);
    this.mailbox.again(device, id);
    await this.mailbox.deliver(device);
  }

  get waitingToPair() {
    return this.#pairing.count;
  }

  get unknownQueries() {
    return this.#queries.unknown;
  }

  // --- what clients send

  async #take(connection, stanza) {
    const { device } = connection;
    if (!device) return this.#pairing.finish(connection, stanza) && this.changes.mark();
    const handler = this.#handlers[stanza.tag];
    await handler?.call(this, connection, stanza);
    return undefined;
  }

  #handlers = {
    iq: this.#iq,
    message: this.#message,
    receipt: this.#receipt,
    ack: this.#ack,
    ib: this.#ib,
  };

  async #iq(connection, question) {
    if (question.attrs.type === 'result') return;
    const answer = await this.#queries.answer(question, connection.device);
    const reply = () => {
      connection.send(answer);
      if (child(question, 'active')) this.#offerWaiting(connection);
      this.changes.mark();
    };
    const delay = this.faults.value('answer_delay_ms');
    if (delay) setTimeout(reply, delay);
    else reply();
  }

  #offerWaiting(connection) {
    const count = String(this.mailbox.waiting(connection.device).length);
    const preview = node('offline_preview', {
      count,
      message: count,
      notification: '0',
      receipt: '0',
      appdata: '0',
    });
    connection.send(node('ib', { from: SERVER_JID }, [preview]));
  }

  async #ib(connection, stanza) {
    if (!child(stanza, 'offline_batch')) return;
    const { device } = connection;
    await this.mailbox.deliverOffline(connection);
    await this.outbox.askAgainAfterAbsence(connection);
    if (device.hasHistory || connection.closed) return;
    device.hasHistory = true;
    this.#pushes.pushHistory(device);
    await this.mailbox.deliver(device);
  }

  #message(connection, stanza) {
    return this.outbox.take(connection, stanza);
  }

  async #receipt(connection, receipt) {
    const { id, to, type, participant } = receipt.attrs;
    if (this.faults.use('lose_receipts')) return connection.drop();
    const attrs = { class: 'receipt', id, from: to, ...(type && { type }), ...(participant && { participant }) };
    connection.send(node('ack', attrs));
    if (type === 'server-error') return this.#reuploadMedia(connection, receipt);
    return this.mailbox.takeReceipt(connection.device, receipt);
  }

  #ack(connection, ack) {
    this.mailbox.takeAck(connection.device, ack);
  }

  /** The client could not fetch a message's media and asks the phone to upload it again. */
  #reuploadMedia(connection, receipt) {
    const { id } = receipt.attrs;
    const media = this.media.ofMessage(id).at(-1);
    if (media) media.reuploads = (media.reuploads ?? 0) + 1;
    this.changes.mark();
    if (media?.reupload === 'silent') return;
    const attrs = { id, type: 'mediaretry', from: connection.device.phoneJid, t: seconds() };
    const about = node('rmr', child(receipt, 'rmr').attrs);
    const content =
      media?.reupload === 'accept'
        ? retryAnswer(id, media, this.media.addAgain(media))
        : node('error', { code: String(NO_SUCH_MEDIA) });
    connection.send(node('notification', attrs, [content, about]));
  }
}

const retryAnswer = (stanzaId, { mediaKey }, { directPath }) => {
  const { SUCCESS } = proto.MediaRetryNotification.ResultType;
  const bytes = proto.MediaRetryNotification.encode({ stanzaId, directPath, result: SUCCESS }).finish();
  const key = Buffer.from(hkdfSync('sha256', mediaKey, Buffer.alloc(32), 'WhatsApp Media Retry Notification', 32));
  const iv = randomBytes(12);
  const sealed = aesEncryptGCM(bytes, key, iv, Buffer.from(stanzaId));
  return node('encrypt', {}, [node('enc_p', {}, sealed), node('enc_iv', {}, iv)]);
};
