// Groups, and what the server tells about them.
import { node, seconds, userOf } from './nodes.mjs';

export class Groups {
  #byId = new Map();
  #people;

  constructor(people, saved = []) {
    this.#people = people;
    for (const group of saved) this.#byId.set(group.id, group);
  }

  toJSON() {
    return [...this.#byId.values()];
  }

  get(id) {
    return this.#byId.get(id);
  }

  /** Makes the group or changes it; members only ever come in. */
  define({ id, subject, participants = [], addressing_mode }) {
    const group = this.#byId.get(id) ?? { id, subject: 'Group', participants: [], addressing_mode: 'pn' };
    if (subject) group.subject = subject;
    if (addressing_mode) group.addressing_mode = addressing_mode;
    const users = participants.map((jid) => this.#people.of(jid).user);
    group.participants = [...new Set([...group.participants, ...users])];
    this.#byId.set(id, group);
    return group;
  }

  members(group) {
    return group.participants.map((user) => this.#people.of(`${user}@s.whatsapp.net`));
  }

  describe(group) {
    const lidMode = group.addressing_mode === 'lid';
    const participants = this.members(group).map((person) =>
      node('participant', lidMode ? { jid: person.lid, phone_number: person.pn } : { jid: person.pn, lid: person.lid }),
    );
    return node(
      'group',
      {
        id: userOf(group.id),
        subject: group.subject,
        s_t: seconds(),
        creation: seconds(),
        addressing_mode: group.addressing_mode,
        size: String(participants.length),
      },
      participants,
    );
  }

  ofUser(user) {
    return [...this.#byId.values()].filter((group) => group.participants.includes(user));
  }
}
