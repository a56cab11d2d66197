/** The text of messages: what was typed, or one readable line in brackets for what is neither text nor media. */

const LONGEST_TEXT = 65_536;
const LONGEST_LINE = 1_000;

/** Fields of a message that hold a poll; WhatsApp has a new one now and then. */
const POLLS = [
  'pollCreationMessage',
  'pollCreationMessageV2',
  'pollCreationMessageV3',
  'pollCreationMessageV5',
];

/**
 * The text of a message without media, or null if nobody would see it in a chat.
 * @param {object} content a proto.Message without wrappers
 * @returns {string | null}
 */
export function textOf(content) {
  const typed =
    content.conversation ||
    content.extendedTextMessage?.text ||
    content.buttonsResponseMessage?.selectedDisplayText ||
    content.templateButtonReplyMessage?.selectedDisplayText ||
    content.listResponseMessage?.title ||
    content.interactiveResponseMessage?.body?.text ||
    content.interactiveMessage?.body?.text ||
    content.listMessage?.description;
  return typed ? clean(typed, LONGEST_TEXT) : describe(content);
}

function describe(content) {
  if (content.locationMessage) return location('Location', content.locationMessage);
  if (content.liveLocationMessage) return location('Live location', content.liveLocationMessage);
  if (content.contactMessage) return bracket('Contact', contact(content.contactMessage));
  if (content.contactsArrayMessage) return contacts(content.contactsArrayMessage);
  if (content.groupInviteMessage) return bracket('Group invitation', content.groupInviteMessage.groupName);
  if (content.eventMessage) return event(content.eventMessage);
  if (content.productMessage) return bracket('Product', content.productMessage.product?.title);
  if (content.orderMessage) return bracket('Order', content.orderMessage.orderTitle);
  const poll = POLLS.map((name) => content[name]).find(Boolean);
  return poll ? pollLine(poll) : null;
}

function location(what, { name, address, degreesLatitude, degreesLongitude, comment, caption }) {
  const place = `${round(degreesLatitude)}, ${round(degreesLongitude)}`;
  return bracket(what, [name, address, comment || caption, place].filter(Boolean).join('; '));
}

function round(degrees) {
  return Number((degrees ?? 0).toFixed(6));
}

function contact({ displayName, vcard }) {
  const numbers = [...(vcard ?? '').slice(0, 10_000).matchAll(/^(?:item\d+\.)?TEL[^:\n]*:([+\d ()./-]+)/gim)];
  return [displayName, ...numbers.slice(0, 5).map((match) => match[1].trim())].filter(Boolean).join(', ');
}

function contacts(message) {
  return bracket('Contacts', (message.contacts ?? []).slice(0, 20).map(contact).join('; '));
}

function event({ name, description, startTime }) {
  const seconds = Number(startTime ?? 0);
  const when = seconds > 0 && seconds < 8.64e12 ? new Date(seconds * 1000).toISOString() : null;
  return bracket('Event', [name, when, description].filter(Boolean).join('; '));
}

function pollLine({ name, options }) {
  const answers = (options ?? []).map((option) => option.optionName).filter(Boolean);
  return bracket('Poll', `${name ?? ''} ${answers.map((answer) => `(${answer})`).join(' ')}`);
}

function bracket(what, text) {
  const line = clean(text ?? '', LONGEST_LINE).replace(/\s+/g, ' ').trim();
  return line ? `[${what}: ${line}]` : `[${what}]`;
}

/**
 * A stranger's text in a form that every database takes, and not without end.
 * @param {string} text
 * @param {number} [longest]
 */
export function clean(text, longest = LONGEST_TEXT) {
  const whole = text.length > longest ? `${text.slice(0, longest)} […]` : text;
  return whole.replaceAll('\0', '').toWellFormed();
}
