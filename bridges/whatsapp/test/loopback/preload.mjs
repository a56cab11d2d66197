// For `node --import`: makes an unmodified Baileys, and the bridge, talk to the loopback WhatsApp that is described by
// LOOPBACK_WHATSAPP (the server's first line).
import { DEFAULT_CONNECTION_CONFIG, WA_CERT_DETAILS } from '@whiskeysockets/baileys';

const place = JSON.parse(process.env.LOOPBACK_WHATSAPP);
WA_CERT_DETAILS.PUBLIC_KEY = Buffer.from(place.root_public_key, 'hex');
DEFAULT_CONNECTION_CONFIG.waWebSocketUrl = place.socket_url;

const bridge = await import('../../src/whatsapp.mjs').catch((error) => {
  if (error.code === 'ERR_MODULE_NOT_FOUND') return {};
  throw error;
});
if (bridge.whatsapp) bridge.whatsapp.mediaOrigin = place.media_origin;
