/** The log: JSON lines on standard error. Neither message texts nor keys go in. */
import pino from 'pino';

/** @param {string} [level] */
export function makeLog(level = 'info') {
  return pino({ level, base: undefined }, pino.destination({ fd: 2, sync: true }));
}

/**
 * Baileys logs whole stanzas and key material beside its sentences: only the sentences of its warnings are kept.
 * @param {import('pino').Logger} log
 */
export function makeBaileysLog(log) {
  const say = (level) => (facts, sentence) => {
    const text = typeof facts === 'string' ? facts : sentence;
    const fault = facts?.err ?? facts?.error;
    log[level]({ baileys: text, fault: fault?.message }, 'baileys');
  };
  const quiet = () => {};
  const baileys = { level: 'silent', trace: quiet, debug: quiet, child: () => baileys };
  Object.assign(baileys, { info: say('debug'), warn: say('debug'), error: say('warn'), fatal: say('warn') });
  return baileys;
}

/**
 * libsignal prints sessions with their keys on the console, and standard output belongs to the keeper.
 * @param {import('pino').Logger} log
 */
export function silenceConsole(log) {
  for (const name of ['log', 'info', 'warn', 'error', 'debug', 'trace']) {
    console[name] = (first) => {
      log.debug({ console: typeof first === 'string' ? first.slice(0, 80) : typeof first }, 'console');
    };
  }
}
