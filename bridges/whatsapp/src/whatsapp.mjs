/**
 * Where WhatsApp is. Tests with a loopback WhatsApp change this object from a module loaded before the bridge
 * (`node --import`); nothing in the environment does.
 */
export const whatsapp = {
  /** The chat connection; null: where Baileys goes by itself. */
  socketUrl: null,
  /** Media are fetched from here by their direct path. */
  mediaOrigin: 'https://mmg.whatsapp.net',
  /** A message without a direct path names a whole address; only https hosts of this domain are believed. */
  mediaDomain: 'whatsapp.net',
  /** The version of WhatsApp Web to speak for, as three numbers; null: the one that Baileys was made for. */
  version: null,
};
