// Starts the loopback WhatsApp: `node server.mjs [folder]`. Its first line on standard output says where it is. With a
// folder it remembers everything, its address too, when it ends in good order; without, it starts empty.
import { mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { BufferJSON } from '@whiskeysockets/baileys';
import { WebSocketServer } from 'ws';
import { control } from './control.mjs';
import { LoopbackWhatsApp } from './network.mjs';

// libsignal prints whole sessions on standard output, where only our first line belongs
console.info = () => {};
console.warn = () => {};

async function load(folder) {
  try {
    return JSON.parse(await readFile(join(folder, 'state.json'), 'utf8'), BufferJSON.reviver);
  } catch (error) {
    if (error.code === 'ENOENT') return {};
    throw error;
  }
}

async function save(folder, state) {
  await writeFile(join(folder, 'state.json.new'), JSON.stringify(state, BufferJSON.replacer));
  await rename(join(folder, 'state.json.new'), join(folder, 'state.json'));
}

function listen(network, port) {
  const sockets = new WebSocketServer({ noServer: true });
  const server = createServer((request, response) => {
    const serve = request.url.startsWith('/control/')
      ? control(network, request, response)
      : network.media.serve(request, response);
    Promise.resolve(serve).catch((error) => {
      console.error('loopback: request', error);
      response.destroy();
    });
  });
  server.on('upgrade', (request, socket, head) => {
    if (network.faults.use('refuse_connections')) return socket.destroy();
    return sockets.handleUpgrade(request, socket, head, (client) => network.accept(client));
  });
  return new Promise((resolve) => server.listen(port, '127.0.0.1', () => resolve(server)));
}

const given = process.argv[2];
const folder = given ?? (await mkdtemp(join(tmpdir(), 'loopback-whatsapp-')));
await mkdir(folder, { recursive: true });
const saved = await load(folder);
const network = new LoopbackWhatsApp({ mediaFolder: join(folder, 'media'), saved });
const server = await listen(network, saved.port ?? 0);
const { port } = server.address();

async function end() {
  if (given) await save(folder, { ...network.toJSON(), port });
  else await rm(folder, { recursive: true, force: true });
  process.exit(0);
}
process.once('SIGTERM', end);
process.once('SIGINT', end);
process.stdin.on('end', end).resume(); // whoever started us is gone

console.log(
  JSON.stringify({
    socket_url: `ws://127.0.0.1:${port}/ws/chat`,
    media_origin: `http://127.0.0.1:${port}`,
    control_url: `http://127.0.0.1:${port}/control`,
    root_public_key: network.keys.root.public.toString('hex'),
  }),
);
