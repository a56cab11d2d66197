/** The HTTP side of protocol.md: who may ask, what may be asked, and errors as JSON. */
import { createHash, timingSafeEqual } from 'node:crypto';
import { createServer } from 'node:http';
import { BridgeError } from './bridge_error.mjs';

const BODY_LIMIT = 1024 ** 2;
const LINGER_BYTES = 64 * 1024 ** 2; // of a refused body, read and dropped before the connection is closed

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
  const bytes = await readBody(request);
  if (!bytes.length) return {};
  let body;
  try {
    body = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch {
    throw new BridgeError(400, 'invalid', 'the body is not JSON');
  }
  if (body === null || typeof body !== 'object' || Array.isArray(body)) {
    throw new BridgeError(400, 'invalid', 'the body is not a JSON object');
  }
  return body;
}

/** Not by `for await`, which destroys the request, and the connection with it, when it is left early. */
function readBody(request) {
  return new Promise((resolve, reject) => {
    const chunks = [];
    let bytes = 0;
    const collect = (chunk) => {
      bytes += chunk.length;
      if (bytes <= BODY_LIMIT) return chunks.push(chunk);
      request.off('data', collect).pause();
      reject(new BridgeError(413, 'too_large', 'the body is larger than 1 MiB'));
    };
    request.on('data', collect);
    request.once('end', () => resolve(Buffer.concat(chunks)));
    const breakOff = () => reject(new BridgeError(400, 'invalid', 'the body broke off'));
    request.on('error', breakOff).once('close', breakOff);
  });
}

function reply(response, status, value) {
  response.end(writeHead(response, status, value));
}

function writeHead(response, status, value) {
  const text = JSON.stringify(value);
  response.setHeader('content-type', 'application/json');
  response.setHeader('content-length', Buffer.byteLength(text));
  response.writeHead(status);
  return text;
}

function replyFault(request, response, error, log) {
  const isExpected = error instanceof BridgeError;
  const fault = isExpected ? error : new BridgeError(503, 'internal', 'the bridge failed; see its log');
  if (!isExpected) log.error({ fault: error.message, stack: error.stack }, 'a request failed');
  if (response.destroyed) return;
  // The rest of a body that was not read must not be taken for the next request.
  response.setHeader('connection', 'close');
  const answer = { code: fault.code, detail: fault.message };
  if (request.readableEnded) return reply(response, fault.status, answer);
  response.write(writeHead(response, fault.status, answer));
  lingerThenClose(request);
}

/**
 * To close a connection on which bytes have come that nobody read resets it, and the client may lose the answer. So the
 * answer is followed by the end of our side, and what still comes is dropped, up to a size and to `requestTimeout`.
 */
function lingerThenClose(request) {
  const { socket } = request;
  socket.end();
  let dropped = 0;
  request.on('data', ({ length }) => {
    dropped += length;
    if (dropped > LINGER_BYTES) socket.destroy();
  });
  request.once('end', () => socket.destroySoon());
  request.resume();
}
