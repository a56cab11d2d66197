// Turns what a test asks for ("an image with this caption") into WhatsApp messages.
import { proto } from '@whiskeysockets/baileys';

const MIME_TYPES = {
  image: 'image/jpeg',
  video: 'video/mp4',
  audio: 'audio/ogg; codecs=opus',
  document: 'application/pdf',
  sticker: 'image/webp',
};
export const MEDIA_KINDS = Object.keys(MIME_TYPES);
const { MEDIA_ALBUM } = proto.MessageAssociation.AssociationType;

const mediaFields = (spec, media) => ({
  url: `https://mmg.whatsapp.net${media.directPath}`,
  directPath: media.directPath,
  mediaKey: media.mediaKey,
  mediaKeyTimestamp: Math.floor(Date.now() / 1000),
  mimetype: spec.mime_type ?? MIME_TYPES[spec.kind],
  fileLength: spec.claimed_length ?? media.fileLength,
  fileSha256: media.fileSha256,
  fileEncSha256: media.fileEncSha256,
  ...(spec.caption ? { caption: spec.caption } : {}),
});

const document = (spec, media) => {
  const fileName = spec.file_name ?? 'document.pdf';
  const documentMessage = { ...mediaFields(spec, media), fileName, title: fileName };
  return spec.caption ? { documentWithCaptionMessage: { message: { documentMessage } } } : { documentMessage };
};

const BUILDERS = {
  text: (spec) =>
    spec.context
      ? { extendedTextMessage: { text: spec.text, contextInfo: spec.context } }
      : { conversation: spec.text },
  image: (spec, media) => ({ imageMessage: mediaFields(spec, media) }),
  video: (spec, media) => ({ videoMessage: { ...mediaFields(spec, media), seconds: spec.seconds ?? 1 } }),
  audio: (spec, media) => ({
    audioMessage: { ...mediaFields(spec, media), ptt: spec.ptt ?? true, seconds: spec.seconds ?? 1 },
  }),
  document,
  sticker: (spec, media) => ({ stickerMessage: mediaFields(spec, media) }),
  location: (spec) => ({
    locationMessage: { degreesLatitude: spec.latitude, degreesLongitude: spec.longitude, name: spec.name },
  }),
  contact: (spec) => ({ contactMessage: { displayName: spec.name, vcard: spec.vcard } }),
  reaction: (spec) => ({
    reactionMessage: { key: spec.key, text: spec.text, senderTimestampMs: Date.now() },
  }),
  revoke: (spec) => ({ protocolMessage: { type: 'REVOKE', key: spec.key } }),
  edit: (spec) => ({
    protocolMessage: {
      type: 'MESSAGE_EDIT',
      key: spec.key,
      editedMessage: { conversation: spec.text },
      timestampMs: Date.now(),
    },
  }),
  album: (spec) => ({
    albumMessage: {
      expectedImageCount: spec.items.filter((item) => item.kind === 'image').length,
      expectedVideoCount: spec.items.filter((item) => item.kind === 'video').length,
    },
  }),
  raw: (spec) => spec.message,
};

const wrap = (spec, message) => {
  if (spec.view_once) return { viewOnceMessageV2: { message } };
  if (spec.ephemeral) return { ephemeralMessage: { message } };
  return message;
};

/** The bytes of the message; `albumKey` ties a picture to the album that it is part of. */
export function buildMessage(spec, media, albumKey) {
  const builder = BUILDERS[spec.kind];
  if (!builder) throw new Error(`no message kind ${spec.kind}; there are ${Object.keys(BUILDERS).join(', ')}`);
  const message = wrap(spec, builder(spec, media));
  if (albumKey) {
    message.messageContextInfo = {
      messageAssociation: { associationType: MEDIA_ALBUM, parentMessageKey: albumKey },
    };
  }
  return Buffer.from(proto.Message.encode(proto.Message.fromObject(message)).finish());
}

export const stanzaType = (kind) => {
  if (MEDIA_KINDS.includes(kind) || kind === 'contact') return 'media';
  return kind === 'reaction' ? 'reaction' : 'text';
};
