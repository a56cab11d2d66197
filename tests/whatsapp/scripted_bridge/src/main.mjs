// A bridge that does what the text of a send says, and writes every call into calls.jsonl in its folder.
import { appendFileSync, mkdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';

const folder = process.env.BRIDGE_DATA;
mkdirSync(folder, { recursive: true });
const note = (fact) => appendFileSync(join(folder, 'calls.jsonl'), `${JSON.stringify({ pid: process.pid, ...fact })}\n`);
const known = new Set();
const secret = readFileSync(Number(process.env.BRIDGE_SECRET_FD), 'utf8');

const SENDS = {
  offline: [503, { code: 'not_connected', detail: 'the bot is connecting' }],
  bad: [400, { code: 'invalid', detail: 'no such number' }],
  nonsense: [200, 'no JSON'],
};

function answer(route, body) {
  if (route === '/initialize') known.add(body.bot_id);
  if (route === '/stop') known.delete(body.bot_id);
  if (route !== '/send') return [200, { bot_id: body.bot_id, status: {} }];
  if (body.text === 'die') process.exit(7);
  if (body.text === 'forget') known.clear();
  if (!known.has(body.bot_id)) return [404, { code: 'unknown_bot', detail: 'no such bot was initialized' }];
  return SENDS[body.text] ?? [200, { provider_message_id: `WA-${body.send_id}`, repeated: false }];
}

const server = createServer(async (request, response) => {
  let text = '';
  for await (const chunk of request) text += chunk;
  const right = request.headers.authorization === `Bearer ${secret}`;
  const body = JSON.parse(text || '{}');
  note({ route: request.url, right, body });
  const [status, value] = right ? answer(request.url, body) : [401, { code: 'unauthorized' }];
  const reply = () => response.writeHead(status).end(typeof value === 'string' ? value : JSON.stringify(value));
  setTimeout(reply, body.text === 'slowly' ? 1500 : 0);
});
server.listen(0, '127.0.0.1', () => {
  note({ started: Object.keys(process.env).filter((name) => /^(MEDIAMILL|BRIDGE)_/.test(name)), main: process.argv[1] });
  process.stderr.write(`${JSON.stringify({ level: 40, time: 1, msg: 'a warning of the bridge', code: 5 })}\n`);
  process.stderr.write(`${'x'.repeat(300_000)}\nnot JSON at all\n`);
  process.stdout.write(`${JSON.stringify({ listening: server.address().port })}\n`);
});
process.stdin.on('end', () => process.exit(0)).resume();
process.on('SIGTERM', () => process.exit(0));
