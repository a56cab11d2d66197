// For `node --import`: makes an unmodified Baileys, and the bridge, talk to the loopback WhatsApp that is described by
// LOOPBACK_WHATSAPP, or `?place=` behind its own address (the server's first line).
import { DEFAULT_CONNECTION_CONFIG, WA_CERT_DETAILS } from '@whiskeysockets/baileys';
import { whatsapp } from '../../src/whatsapp.mjs';

const place = JSON.parse(new URL(import.meta.url).searchParams.get('place') ?? process.env.LOOPBACK_WHATSAPP);
WA_CERT_DETAILS.PUBLIC_KEY = Buffer.from(place.root_public_key, 'hex');
DEFAULT_CONNECTION_CONFIG.waWebSocketUrl = place.socket_url;
whatsapp.socketUrl = place.socket_url;
whatsapp.mediaOrigin = place.media_origin;
