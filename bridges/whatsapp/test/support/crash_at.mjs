/**
 * For `node --import`: kills this process with -9 at a step of its work with files. CRASH_AT is
 * `<before|after> <rename|rm> <part of the path> [which time]`, for example `before rename /spool/ 2`.
 */
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';

const [moment, call, part, time = '1'] = (process.env.CRASH_AT ?? '').split(' ');
let count = 0;

function dieIf(now, path) {
  if (now !== moment || !String(path).includes(part)) return;
  count += 1;
  if (count === Number(time)) process.kill(process.pid, 'SIGKILL');
}

if (call) {
  const original = fs.promises[call];
  fs.promises[call] = async (...parameters) => {
    // rename is told by its new name, rm by the only one
    const path = call === 'rename' ? parameters[1] : parameters[0];
    dieIf('before', path);
    const result = await original(...parameters);
    dieIf('after', path);
    return result;
  };
  syncBuiltinESMExports();
}
