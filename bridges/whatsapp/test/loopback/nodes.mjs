// Small words for WhatsApp's binary nodes and addresses, and a logger that says nothing.
import { getBinaryNodeChild, getBinaryNodeChildren, jidDecode } from '@whiskeysockets/baileys';

export const SERVER = 's.whatsapp.net';
export const SERVER_JID = `@${SERVER}`; // the server itself, a jid without a user

export const node = (tag, attrs = {}, content = undefined) => ({ tag, attrs, content });
export const child = getBinaryNodeChild;
export const children = getBinaryNodeChildren;
export const childBytes = (parent, tag) => Buffer.from(getBinaryNodeChild(parent, tag).content);
export const seconds = () => String(Math.floor(Date.now() / 1000));

export const bigEndian = (number, length) => {
  const bytes = Buffer.alloc(length);
  bytes.writeUIntBE(number, 0, length);
  return bytes;
};
export const fromBigEndian = (bytes) => Buffer.from(bytes).readUIntBE(0, bytes.length);

export const userOf = (jid) => jidDecode(jid)?.user;
export const isGroup = (jid) => jid.endsWith('@g.us');
export const isLid = (jid) => jid.endsWith('@lid');

const nothing = () => {};
export const silent = {
  level: 'silent',
  trace: nothing,
  debug: nothing,
  info: nothing,
  warn: nothing,
  error: nothing,
  fatal: nothing,
  child: () => silent,
};
