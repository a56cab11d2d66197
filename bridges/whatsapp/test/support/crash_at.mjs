/**
 * For `node --import`: kills this process with -9 at a step of its work with files. CRASH_AT is
 * `<before|after> <rename|rm> <part of the path> [which time]`, for example `before rename /spool/ 2`.
 * A parent with a channel to this process can name the step later, as a message; the answer says that it is known.
 */
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';

let step;
let count;

function crashAt(text) {
  const [moment, call, part, time = '1'] = text.split(' ');
  step = { moment, call, part, time: Number(time) };
  count = 0;
}

function dieIf(moment, call, path) {
  if (moment !== step.moment || call !== step.call || !String(path).includes(step.part)) return;
  count += 1;
  if (count === step.time) process.kill(process.pid, 'SIGKILL');
}

crashAt(process.env.CRASH_AT ?? '');
for (const call of ['rename', 'rm']) {
  const original = fs.promises[call];
  fs.promises[call] = async (...parameters) => {
    // a rename is known by its new name, a removal by the only one
    const path = call === 'rename' ? parameters[1] : parameters[0];
    dieIf('before', call, path);
    const result = await original(...parameters);
    dieIf('after', call, path);
    return result;
  };
}
syncBuiltinESMExports();
if (process.channel) {
  process.on('message', (text) => {
    crashAt(text);
    process.send(text);
  });
  process.channel.unref(); // the bridge ends as it does without a channel
}
