/** From where a media file may be fetched: what a message says is a stranger's text. */
import { whatsapp } from './whatsapp.mjs';

/**
 * The address of a media file, or null if the message names none that may be fetched.
 * @param {{directPath?: string | null, url?: string | null}} media
 * @returns {URL | null}
 */
export function mediaAddress(media) {
  const address = media.directPath
    ? parse(media.directPath, whatsapp.mediaOrigin)
    : parse(media.url ?? '');
  return address && isAllowed(address) ? address : null;
}

function parse(text, origin) {
  try {
    return new URL(text, origin);
  } catch {
    return null;
  }
}

/** @param {URL} address */
function isAllowed(address) {
  if (address.username || address.password) return false;
  if (address.origin === whatsapp.mediaOrigin) return true;
  const host = address.hostname;
  const isOurs = host === whatsapp.mediaDomain || host.endsWith(`.${whatsapp.mediaDomain}`);
  return address.protocol === 'https:' && address.port === '' && isOurs;
}
