/** A media server on loopback: one encrypted file, served well or with a fault for each path. */
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { whatsapp } from '../../src/whatsapp.mjs';
import { encryptMedia } from '../loopback/media.mjs';

export class MediaServer {
  requests = [];
  /** path -> (request, response, file, count) => void; without an entry the file is served whole */
  paths = new Map();

  /** @param {string} folder @param {Buffer} plain @param {string} kind */
  static async start(folder, plain, kind = 'image') {
    const server = new MediaServer();
    const target = join(folder, 'encrypted');
    server.facts = await encryptMedia(Readable.from([plain]), kind, target);
    server.file = await readFile(target);
    server.http = createServer((request, response) => server.#serve(request, response));
    server.http.listen(0, '127.0.0.1');
    await once(server.http, 'listening');
    server.origin = `http://127.0.0.1:${server.http.address().port}`;
    whatsapp.mediaOrigin = server.origin;
    return server;
  }

  /** What a message would say of the file. */
  media(path = '/good', changes = {}) {
    return { directPath: path, ...this.facts, ...changes };
  }

  count(path) {
    return this.requests.filter((request) => request === path).length;
  }

  async stop() {
    this.http.closeAllConnections();
    this.http.close();
    await once(this.http, 'close');
  }

  #serve(request, response) {
    this.requests.push(request.url);
    const serve = this.paths.get(request.url) ?? sendWhole;
    serve(request, response, this.file, this.count(request.url));
  }
}

export function sendWhole(_request, response, file) {
  response.writeHead(200, { 'content-length': file.length }).end(file);
}
