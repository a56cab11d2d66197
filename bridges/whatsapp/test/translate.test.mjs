/** From WhatsApp's messages to payloads, through the real protocol buffers (C40, C41). */
import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { describe, it } from 'node:test';
import { proto } from '@whiskeysockets/baileys';
import { isChatMessage, translate } from '../src/translate.mjs';
import { ANN, ANN_LID, GROUP, groupName, ME, messages, payloadOf, recordOf, SAMPLES } from './support/sample_messages.mjs';

const FIELDS = [
  '_quota_exceeded',
  'actual_sender',
  'addressed',
  'alternate_identifiers',
  'direction',
  'display_name',
  'group',
  'media_processing_id',
  'media_seconds',
  'message',
  'mime_type',
  'original_filename',
  'originating_time',
  'provider_message_id',
  'recipient_id',
  'sender',
];
const readSample = async (name) => JSON.parse(await readFile(`${SAMPLES}${name}`, 'utf8'));
const text = (message) => payloadOf({ message })?.message;
const media = (message) => translate(recordOf({ message }), groupName).media;

describe('the samples', () => {
  for (const [name, sample] of Object.entries(messages)) {
    it(`hold the payload of ${name}, as it is made`, async () => {
      const payload = payloadOf(sample);
      assert.deepEqual(payload, await readSample(`${name}.json`));
      assert.deepEqual(Object.keys(payload).sort(), FIELDS);
    });
  }

  it('are no more than those', async () => {
    const names = (await readdir(SAMPLES)).filter((name) => name.endsWith('.json'));
    assert.deepEqual(names.sort(), Object.keys(messages).map((name) => `${name}.json`).sort());
  });

  it('that are invalid each name what is wrong', async () => {
    for (const name of await readdir(`${SAMPLES}invalid`)) {
      const { fault, payload } = await readSample(`invalid/${name}`);
      assert.ok(fault === 'payload' || FIELDS.includes(fault), name);
      assert.notEqual(payload, undefined);
    }
  });
});

describe('what is no message of a chat', () => {
  const { Type } = proto.Message.ProtocolMessage;
  const quiet = {
    'a reaction': { reactionMessage: { key: { id: 'X' }, text: '👍' } },
    'an encrypted reaction': { encReactionMessage: { targetMessageKey: { id: 'X' } } },
    'a sender key': { senderKeyDistributionMessage: { groupId: GROUP } },
    'a deletion': { protocolMessage: { type: Type.REVOKE, key: { id: 'X' } } },
    'a history': { protocolMessage: { type: Type.HISTORY_SYNC_NOTIFICATION } },
    'keys of the application state': { protocolMessage: { type: Type.APP_STATE_SYNC_KEY_SHARE } },
    'a change of disappearing messages': { protocolMessage: { type: Type.EPHEMERAL_SETTING } },
    'the frame of an album': { albumMessage: { expectedImageCount: 3 } },
    'a vote': { pollUpdateMessage: { pollCreationMessageKey: { id: 'X' } } },
    'a pin': { pinInChatMessage: { key: { id: 'X' } } },
    'a kept message': { keepInChatMessage: { key: { id: 'X' } } },
    'a call': { call: { callKey: Buffer.from('x') } },
    'nothing at all': {},
    'an empty wrapper': { ephemeralMessage: {} },
  };
  for (const [name, message] of Object.entries(quiet)) {
    it(`is dropped: ${name}`, () => {
      assert.equal(payloadOf({ message }), undefined);
      const key = recordOf({ message }).key;
      assert.equal(isChatMessage(proto.Message.fromObject(message), key), false);
    });
  }

  for (const remoteJid of ['status@broadcast', '120363@newsletter']) {
    it(`is dropped: what ${remoteJid} says`, () => {
      assert.equal(payloadOf({ message: { conversation: 'x' }, key: { remoteJid } }), undefined);
    });
  }

  it('does not hide a text that brings a sender key along', () => {
    const message = { conversation: 'hello', senderKeyDistributionMessage: { groupId: GROUP } };
    assert.equal(text(message), 'hello');
  });
});

describe('who wrote where', () => {
  it('is a chat with the writer for what came by a list of recipients', () => {
    const key = { remoteJid: '1234@broadcast', remoteJidAlt: undefined, participant: ANN };
    const payload = payloadOf({ message: { conversation: 'x' }, key });
    assert.equal(payload.sender, ANN);
    assert.equal(payload.group, null);
  });

  it('does not take the owner’s own other id for that of the other person', () => {
    const key = { remoteJid: ANN_LID, remoteJidAlt: ME.id, fromMe: true };
    assert.equal(payloadOf({ message: { conversation: 'x' }, key }).recipient_id, ANN_LID);
  });

  it('is the owner himself for a note to himself', () => {
    const key = { remoteJid: '491700000001@s.whatsapp.net', remoteJidAlt: undefined, fromMe: true };
    const payload = payloadOf({ message: { conversation: 'x' }, key });
    assert.equal(payload.recipient_id, '491700000001@s.whatsapp.net');
    assert.equal(payload.direction, 'outgoing');
  });

  it('names people without their devices', () => {
    const payload = payloadOf({ message: { conversation: 'x' }, key: { remoteJid: '491709999999:12@s.whatsapp.net' } });
    assert.equal(payload.sender, ANN);
  });

  it('is told without names that nobody knows', () => {
    const sample = { message: { conversation: 'x' }, key: { remoteJid: '1-2@g.us', participant: ANN }, record: { push_name: null } };
    const { group, display_name, actual_sender } = payloadOf(sample);
    assert.deepEqual([group.display_name, display_name, actual_sender.display_name], [null, null, null]);
  });
});

describe('strangers’ texts', () => {
  it('lose what a database cannot hold', () => {
    assert.equal(text({ conversation: 'a\0b' }), 'ab');
    const bytes = Buffer.from([0x0a, 0x05, 0x61, 0xed, 0xa0, 0x80, 0x62]); // conversation: a, half a surrogate, b
    const record = { ...recordOf({ message: {} }), message: bytes.toString('base64') };
    assert.ok(translate(record, groupName).payload.message.isWellFormed());
  });

  it('have an end', () => {
    assert.equal(text({ conversation: 'a'.repeat(1_000_000) }).length, 65_540);
    assert.ok(text({ pollCreationMessage: { name: 'b'.repeat(9999), options: [] } }).length < 1100);
    const { original_filename } = payloadOf({ message: { documentMessage: { fileName: 'c'.repeat(9999) } } });
    assert.equal(original_filename.length, 255);
    assert.ok(payloadOf({ message: { conversation: 'x' }, record: { push_name: 'd'.repeat(9999) } }).display_name.length < 300);
  });

  it('in brackets are one line', () => {
    assert.equal(text({ locationMessage: { name: 'a\nb\r\n  c' } }), '[Location: a b c; 0, 0]');
    assert.equal(text({ contactMessage: {} }), '[Contact]');
  });

  it('that claim to be media of another kind are not believed', () => {
    for (const mimetype of ['media_corrupt_image', '', 'x'.repeat(300) + '/y', 'a b/c', '../x', undefined]) {
      assert.equal(media({ imageMessage: { mimetype } }).mimeType, 'image/jpeg');
    }
  });

  it('do not end the translation when they are nonsense', () => {
    for (const message of [
      { eventMessage: { name: 'x', startTime: '9223372036854775807' } },
      { locationMessage: { degreesLatitude: NaN, degreesLongitude: Infinity } },
      { contactMessage: { vcard: 'TEL:'.repeat(100_000) } },
      { contactsArrayMessage: { contacts: Array.from({ length: 500 }, () => ({})) } },
      { pollCreationMessage: {} },
      { groupInviteMessage: {} },
      { productMessage: {} },
      { imageMessage: {} },
    ]) {
      assert.equal(typeof text(message), 'string');
    }
  });

  it('wrapped in one another without end are dropped', () => {
    let message = { conversation: 'deep' };
    for (let depth = 0; depth < 40; depth += 1) message = { ephemeralMessage: { message } };
    assert.equal(text(message), undefined);
  });
});

describe('the media of a message', () => {
  it('keep their keys and their length', () => {
    const found = media(messages.voice_note.message);
    assert.equal(found.kind, 'audio');
    assert.deepEqual(Buffer.from(found.media.mediaKey), Buffer.alloc(32, 1));
    assert.equal(Number(found.media.fileLength), 12_345);
    assert.equal(found.media.directPath, '/v/t62/abc?ccb=11');
  });

  it('are not fetched again for an edited caption', () => {
    const message = { protocolMessage: { type: 'MESSAGE_EDIT', editedMessage: { imageMessage: { caption: 'better' } } } };
    assert.equal(media(message), null);
    assert.equal(text(message), '[Edited] better');
  });
});

describe('a message in a group', () => {
  const key = messages.text_group.key;
  const addressed = (message, record = {}) => payloadOf({ message, key, record }).addressed;
  const context = (contextInfo) => ({ extendedTextMessage: { text: 'x', contextInfo } });

  it('is addressed to the account when it mentions it, by phone number or by LID', () => {
    assert.equal(addressed({ conversation: 'hello all' }), false);
    assert.equal(addressed(context({ mentionedJid: ['491700000001@s.whatsapp.net'] })), true);
    assert.equal(addressed(context({ mentionedJid: [ANN, '100000000000001@lid'] })), true);
    assert.equal(addressed(context({ mentionedJid: [ANN] })), false);
  });

  it('is addressed to the account when it replies to it, and not when it replies to another', () => {
    const quotedMessage = { conversation: 'before' };
    assert.equal(addressed(context({ participant: '100000000000001@lid', quotedMessage })), true);
    assert.equal(addressed(context({ participant: ANN, quotedMessage })), false);
  });

  it('is addressed by its caption, and when it disappears', () => {
    const contextInfo = { mentionedJid: ['100000000000001@lid'] };
    assert.equal(addressed({ imageMessage: { caption: 'look', contextInfo } }), true);
    assert.equal(addressed({ ephemeralMessage: { message: context(contextInfo) } }), true);
  });

  it('does not take an account without a LID for everybody', () => {
    const me = { id: ME.id, name: ME.name };
    assert.equal(addressed(context({ mentionedJid: ['100000000000001@lid'] }), { me }), false);
    assert.equal(addressed({ conversation: 'hello all' }, { me }), false);
  });
});
