/** Starts the bridge as protocol.md says: settings from the environment, one line on standard output, a good end. */
import { readFileSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { Bridge } from './bridge.mjs';
import { makeServer } from './http.mjs';
import { lockFolder } from './lock.mjs';
import { makeLog, silenceConsole } from './log.mjs';
import { timing } from './timing.mjs';

/** A connection that breaks without a listener is no reason to end; anything else may have left things half done. */
const NETWORK_FAULTS = new Set([
  'ECONNRESET',
  'ECONNREFUSED',
  'ECONNABORTED',
  'EPIPE',
  'ETIMEDOUT',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_SOCKET',
]);

const log = makeLog(process.env.BRIDGE_LOG);
silenceConsole(log);
process.on('unhandledRejection', (error) => {
  log.error({ fault: error?.message, stack: error?.stack }, 'unhandled rejection');
});
process.on('uncaughtException', (error) => {
  log.fatal({ fault: error?.message, stack: error?.stack }, 'uncaught exception');
  if (!NETWORK_FAULTS.has(error?.code)) process.exit(70);
});

/** By a descriptor if there is one: others of this user can read the environment of a process. */
function withSecret(environment) {
  const descriptor = environment.BRIDGE_SECRET_FD;
  if (!descriptor) return environment;
  return { ...environment, BRIDGE_SECRET: readFileSync(Number(descriptor), 'utf8').trim() };
}

function readSettings(environment) {
  const required = ['BRIDGE_SECRET', 'BRIDGE_DATA', 'BRIDGE_STAGING', 'BRIDGE_BACKEND'];
  const missing = required.filter((name) => !environment[name]);
  if (missing.length) throw new Error(`missing in the environment: ${missing.join(', ')}`);
  const port = Number(environment.BRIDGE_PORT || 0);
  if (!Number.isInteger(port) || port < 0 || port > 65_535) throw new Error('BRIDGE_PORT is not a port');
  const backend = environment.BRIDGE_BACKEND.replace(/\/+$/, '');
  if (!/^wss?:\/\//.test(backend)) throw new Error('BRIDGE_BACKEND is not a WebSocket address');
  return {
    secret: environment.BRIDGE_SECRET,
    data: environment.BRIDGE_DATA,
    staging: environment.BRIDGE_STAGING,
    backend,
    host: environment.BRIDGE_HOST || '127.0.0.1',
    port,
  };
}

async function run() {
  process.umask(0o077); // sessions and media are for this user alone
  const settings = readSettings(withSecret(process.env));
  await mkdir(settings.data, { recursive: true, mode: 0o700 });
  await mkdir(settings.staging, { recursive: true });
  await lockFolder(settings.data).catch((error) => {
    throw error.code === 'EADDRINUSE' ? new Error('another bridge uses this BRIDGE_DATA') : error;
  });
  const bridge = new Bridge(settings, log);
  let isEnding = false;
  const shutDown = async () => {
    if (isEnding) return;
    isEnding = true;
    log.info('stopping');
    setTimeout(() => process.exit(0), timing.stopSeconds * 1000).unref();
    server.close();
    await bridge.close();
    process.exit(0);
  };
  const server = makeServer(bridge, settings.secret, shutDown, log);
  server.listen(settings.port, settings.host, () => {
    process.stdout.write(`${JSON.stringify({ listening: server.address().port })}\n`);
  });
  server.on('error', (error) => fail(error));
  process.on('SIGTERM', shutDown);
  process.on('SIGINT', shutDown);
  // The keeper holds the other end; when it is gone, so are we.
  process.stdin.on('end', shutDown).on('close', shutDown).on('error', shutDown).resume();
}

function fail(error) {
  log.fatal({ fault: error.message }, 'the bridge cannot start');
  process.exit(1);
}

run().catch(fail);
