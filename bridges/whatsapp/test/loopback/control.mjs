// The HTTP side for tests: each route is a verb on the loopback WhatsApp.
const BODY_LIMIT = 64 * 1024 * 1024;
const LONGEST_WAIT_MS = 30_000;

const deviceView = (network) => (device) => ({
  device: device.jid,
  lid: device.lid,
  phone: device.user,
  name: device.name,
  removed: device.removed,
  connected: device.connection !== null,
  online: device.connection?.online ?? false,
  connections: device.connections,
  pre_keys: device.preKeys.length,
  undelivered: network.mailbox.waiting(device).map((entry) => entry.id),
  sent: network.outbox.of(device).length,
});

const messageView = ({ device, id, kind, done, pushed_at, deliveries, receipts, refusals, retries }) => ({
  device,
  id,
  kind,
  done,
  pushed_at,
  deliveries,
  receipts,
  refusals,
  retries,
});

const mediaView = ({ messageId, directPath, fileLength, requests, completed, faults, reuploads = 0 }) => ({
  message_id: messageId,
  direct_path: directPath,
  bytes: fileLength,
  requests,
  completed,
  faults,
  reuploads,
});

const ROUTES = {
  'POST /scan': async (network, body) => {
    const device = await network.scan(body);
    return { device: device.jid, lid: device.lid, phone: device.user };
  },
  'POST /push': (network, body) => network.push(body),
  'POST /redeliver': (network, body) => network.redeliver(body.to, body.id),
  'POST /groups': (network, body) => network.groups.define(body),
  'POST /people': (network, body) => {
    const person = network.people.meet({ user: body.pn.split('@')[0], lidUser: body.lid.split('@')[0] });
    return { pn: person.pn, lid: person.lid };
  },
  'POST /media': (network, body) => {
    for (const media of network.media.ofMessage(body.message_id)) {
      if (body.faults) media.faults = [body.faults].flat();
      if (body.reupload) media.reupload = body.reupload;
    }
  },
  'POST /faults': (network, body) => {
    network.faults.order(body);
    return network.faults;
  },
  'POST /drop': (network, body) => ({ dropped: network.drop(body.device) }),
  'POST /stream_error': (network, body) => network.streamError(body.device, body.reason),
  'GET /outbox': (network, _body, query) =>
    query.device ? network.outbox.of(network.devices.find(query.device)) : network.outbox.all(),
  'GET /messages': (network, _body, query) =>
    network.mailbox
      .all()
      .map(messageView)
      .filter((entry) => !query.device || entry.device === network.devices.find(query.device).jid),
  'GET /state': async (network, _body, query) => {
    if (query.after !== undefined) {
      await network.changes.after(Number(query.after), Number(query.wait_ms ?? LONGEST_WAIT_MS));
    }
    return query.brief ? briefState(network) : { ...briefState(network), ...details(network) };
  },
};

function briefState(network) {
  return {
    version: network.changes.version,
    pairing: network.waitingToPair,
    devices: network.devices.all().map(deviceView(network)),
    pushed: network.mailbox.pushed,
    delivered: network.mailbox.delivered,
    sent: network.outbox.all().length,
    faults: network.faults,
    unknown_queries: network.unknownQueries,
  };
}

function details(network) {
  const messages = Object.fromEntries(network.devices.all().map((device) => [device.jid, {}]));
  for (const entry of network.mailbox.all()) messages[entry.device][entry.id] = messageView(entry);
  return { messages, media: network.media.all().map(mediaView) };
}

async function readBody(request) {
  const chunks = [];
  let length = 0;
  for await (const chunk of request) {
    length += chunk.length;
    if (length > BODY_LIMIT) throw new Error('the body is too long');
    chunks.push(chunk);
  }
  return length ? JSON.parse(Buffer.concat(chunks)) : {};
}

export async function control(network, request, response) {
  const url = new URL(request.url, 'http://control');
  const route = ROUTES[`${request.method} ${url.pathname.replace(/^\/control/, '')}`];
  const reply = (status, value) =>
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value ?? {}));
  if (!route) return reply(404, { detail: 'no such route' });
  try {
    return reply(200, await route(network, await readBody(request), Object.fromEntries(url.searchParams)));
  } catch (error) {
    return reply(400, { detail: String(error.message) });
  }
}
