/** The HTTP side of protocol.md: who may ask, what may be asked, and errors as JSON. */
import { createHash, timingSafeEqual } from 'node:crypto';
import { createServer } from 'node:http';
import { BridgeError } from './bridge_error.mjs';

const BODY_LIMIT = 1024 ** 2;

/**
 * @param {import('./bridge.mjs').Bridge} bridge
 * @param {string} secret
 * @param {() => void} shutDown
 * @param {import('pino').Logger} log
 */
export function makeServer(bridge, secret, shutDown, log) {
  const routes = {
    'POST /initialize': (body) => bridge.initialize(body),
    'POST /send': (body) => bridge.send(body),
    'POST /stop': (body) => bridge.stop(body),
    'POST /logout': (body) => bridge.logout(body),
    'GET /status': () => bridge.status(),
    'POST /shutdown': () => {
      setImmediate(shutDown);
      return {};
    },
  };
  const server = createServer(async (request, response) => {
    try {
      reply(response, 200, await serve(request, routes, secret));
    } catch (error) {
      replyFault(request, response, error, log);
    }
  });
  server.requestTimeout = 30_000;
  return server;
}

async function serve(request, routes, secret) {
  if (!isAllowed(request.headers.authorization, secret)) {
    throw new BridgeError(401, 'unauthorized', 'the secret is missing or wrong');
  }
  const route = `${request.method} ${(request.url ?? '').split('?')[0]}`;
  if (!Object.hasOwn(routes, route)) throw new BridgeError(404, 'no_such_route', 'there is no such route');
  const body = request.method === 'POST' ? await readJson(request) : {};
  return routes[route](body);
}

/** Compared by digest: equal lengths, and no hint by the time that it takes. */
function isAllowed(header, secret) {
  const digest = (text) => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(header ?? ''), digest(`Bearer ${secret}`));
}

async function readJson(request) {
  const chunks = [];
  let bytes = 0;
  for await (const chunk of request) {
    bytes += chunk.length;
    if (bytes > BODY_LIMIT) throw new BridgeError(413, 'too_large', 'the body is larger than 1 MiB');
    chunks.push(chunk);
  }
  if (!bytes) return {};
  let body;
  try {
    body = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(chunks)));
  } catch {
    throw new BridgeError(400, 'invalid', 'the body is not JSON');
  }
  if (body === null || typeof body !== 'object' || Array.isArray(body)) {
    throw new BridgeError(400, 'invalid', 'the body is not a JSON object');
  }
  return body;
}

function reply(response, status, value) {
  const text = JSON.stringify(value);
  response.setHeader('content-type', 'application/json');
  response.setHeader('content-length', Buffer.byteLength(text));
  response.writeHead(status).end(text);
}

function replyFault(request, response, error, log) {
  const isExpected = error instanceof BridgeError;
  const fault = isExpected ? error : new BridgeError(503, 'internal', 'the bridge failed; see its log');
  if (!isExpected) log.error({ fault: error.message, stack: error.stack }, 'a request failed');
  if (response.destroyed) return;
  // The rest of a body that was not read must not be taken for the next request.
  response.setHeader('connection', 'close');
  reply(response, fault.status, { code: fault.code, detail: fault.message });
  response.once('finish', () => request.destroy());
}
