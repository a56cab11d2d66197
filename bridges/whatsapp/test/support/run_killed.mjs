/** Runs a few lines of code in a process of their own that is killed with -9 at a step. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';

const CRASH = new URL('./crash_at.mjs', import.meta.url).href;

/**
 * @param {string} crashAt see crash_at.mjs; empty: not killed
 * @param {string} code an ES module; `import` from ../src by `SRC`
 * @returns {Promise<{signal: string | null, code: number | null, output: string}>}
 */
export async function runKilled(crashAt, code) {
  const source = code.replaceAll('SRC', new URL('../../src', import.meta.url).href);
  const child = spawn(process.execPath, ['--import', CRASH, '--input-type=module', '-e', source], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { PATH: process.env.PATH, CRASH_AT: crashAt },
  });
  let output = '';
  child.stdout.on('data', (bytes) => (output += bytes));
  const [exitCode, signal] = await once(child, 'close');
  return { signal, code: exitCode, output };
}
