// Answers to the questions (iq) that Baileys asks. Each takes (question, device) and returns the answer's content.
import { randomBytes } from 'node:crypto';
import { child, children, node, seconds, SERVER, SERVER_JID } from './nodes.mjs';

const NOT_FOUND = { code: '404', text: 'item-not-found' };

export class Queries {
  #world;
  #unknown = new Set();

  constructor(world) {
    this.#world = world; // {people, devices, groups, mediaHost, onLogout}
  }

  /** Questions that got an empty answer because nobody here knows them: a test may look at this. */
  get unknown() {
    return [...this.#unknown];
  }

  async answer(question, device) {
    const { id, to, xmlns, type } = question.attrs;
    const handler = this.#handlers[xmlns];
    if (!handler) this.#unknown.add(`${xmlns} ${type} ${question.content?.[0]?.tag ?? ''}`.trim());
    const content = await handler?.(question, device);
    const error = content?.[0]?.tag === 'error';
    return node('iq', { id, type: error ? 'error' : 'result', from: to ?? SERVER_JID }, content);
  }

  #handlers = {
    encrypt: (question, device) => this.#encrypt(question, device),
    usync: (question, device) => this.#usync(question, device),
    'w:g2': (question, device) => this.#groups(question, device),
    'w:sync:app:state': (question) => this.#appState(question),
    'w:m': () => [
      node('media_conn', { auth: 'loopback', ttl: '3600' }, [
        node('host', { hostname: this.#world.mediaHost(), maxContentLengthBytes: '1000000000' }),
      ]),
    ],
    privacy: (question) => (question.attrs.type === 'get' ? this.#privacy() : this.#tokens(question)),
    abt: () => [node('props', { hash: 'loopback' }, [])],
    blocklist: () => [node('list', {}, [])],
    md: (question, device) => this.#world.onLogout(question, device),
    passive: () => undefined,
    'w:p': () => undefined,
    'w:stats': () => undefined,
    'urn:xmpp:whatsapp:dirty': () => undefined,
    disappearing_mode: () => undefined,
    status: () => undefined,
    'w:biz': () => [node('business_profile', {}, [])],
    'w:profile:picture': () => [node('error', NOT_FOUND)],
    'w:mex': () => [node('result', {}, Buffer.from(JSON.stringify({ data: {} })))],
  };

  async #encrypt(question, device) {
    const [first] = question.content;
    if (question.attrs.type === 'set') {
      if (first.tag === 'rotate') device.rotateSignedKey(first);
      else device.storeBundle(question);
      return undefined;
    }
    if (first.tag === 'count') return [node('count', { value: String(device.preKeyCount) })];
    if (first.tag === 'digest') return [node('digest', {}, [node('hash', {}, randomBytes(20))])];
    const users = children(first, 'user').map(async ({ attrs: { jid } }) =>
      node('user', { jid, t: seconds() }, await this.#world.people.of(jid).bundleNodes()),
    );
    return [node('list', {}, await Promise.all(users))];
  }

  #usync(question, device) {
    const usync = child(question, 'usync');
    const wanted = child(usync, 'query').content.map((protocol) => protocol.tag);
    const users = children(child(usync, 'list'), 'user').map((user) => this.#usyncUser(user, wanted, device));
    return [node('usync', usync.attrs, [node('result', {}, []), node('list', {}, users)])];
  }

  #usyncUser(user, wanted, device) {
    const phone = child(user, 'contact')?.content?.toString();
    const jid = user.attrs.jid ?? `${phone.replace('+', '')}@${SERVER}`;
    const person = this.#world.people.of(jid);
    const answers = {
      devices: () => node('devices', {}, [this.#deviceList(person, device)]),
      lid: () => node('lid', { val: person.lid }),
      contact: () => node('contact', { type: 'in' }, phone),
    };
    return node(
      'user',
      { jid },
      wanted.filter((tag) => answers[tag]).map((tag) => answers[tag]()),
    );
  }

  /** Everybody has a phone; of linked devices only the one that asks is told of. */
  #deviceList(person, device) {
    const list = [node('device', { id: '0' })];
    if (person.user === device.user) {
      list.push(node('device', { id: String(device.number), 'key-index': String(device.number) }));
    }
    return node('device-list', {}, list);
  }

  #groups(question, device) {
    const { groups } = this.#world;
    if (question.content[0].tag === 'participating') {
      return [
        node(
          'groups',
          {},
          groups.ofUser(device.user).map((group) => groups.describe(group)),
        ),
      ];
    }
    const group = groups.get(question.attrs.to);
    return [group ? groups.describe(group) : node('error', NOT_FOUND)];
  }

  #appState(question) {
    const collections = children(child(question, 'sync'), 'collection').map(({ attrs: { name, version } }) =>
      node('collection', { name, version, has_more_patches: 'false' }, []),
    );
    return [node('sync', {}, collections)];
  }

  #privacy() {
    const settings = ['readreceipts', 'profile', 'status', 'online', 'last', 'groupadd', 'calladd'];
    return [
      node(
        'privacy',
        {},
        settings.map((name) => node('category', { name, value: 'all' })),
      ),
    ];
  }

  #tokens(question) {
    const tokens = child(question, 'tokens');
    if (!tokens) return undefined;
    return [
      node(
        'tokens',
        {},
        children(tokens, 'token').map(({ attrs }) => node('token', attrs, randomBytes(16))),
      ),
    ];
  }
}
