/** Every duration and limit of the bridge in one object, so that tests may shorten them. */
export const timing = {
  reconnectFirstSeconds: 1,
  reconnectLongestSeconds: 60,
  /** A connection that lasted this long was good: the back-off starts anew. */
  reconnectSettledSeconds: 20,

  backendFirstSeconds: 0.25,
  backendLongestSeconds: 15,
  backendPingSeconds: 20,
  /** A frame without an answer for so long: the connection is given up and the frame sent again on a new one. */
  backendAnswerSeconds: 60,
  backendLaterSeconds: 2,
  backendWindow: 32,
  backendGoodbyeSeconds: 0.5,

  downloadTries: 3,
  downloadPauseSeconds: [2, 4, 8],
  downloadIdleSeconds: 30,
  downloadTotalSeconds: 3600,
  /** Of one bot, and of all. */
  downloadsAtOnce: 4,
  downloadsAtOnceOfAll: 16,
  /** So long a download waits for WhatsApp to be reached before each try. */
  downloadOnlineSeconds: 300,
  reuploadSeconds: 20,
  /** WhatsApp itself ends at 2 GB. */
  largestMediaBytes: 2 ** 31 + 2 ** 24,

  quotaMeasureSeconds: 60,
  quotaMeasureAgainSeconds: 2,

  brokenDiskSeconds: 5,

  sendConfirmSeconds: 30,
  sentMemoryDays: 30,
  seenMemory: 20_000,
  groupNamesAtMost: 5_000,
  groupNameSeconds: 2,
  stopSeconds: 5,
};

/**
 * Exponential back-off with jitter: between half and the whole of first * 2^attempt, at most longest.
 * @param {number} attempt from 0
 * @param {number} first seconds
 * @param {number} longest seconds
 * @returns {number} milliseconds
 */
export function backOff(attempt, first, longest) {
  const seconds = Math.min(longest, first * 2 ** Math.min(attempt, 30));
  return seconds * 1000 * (0.5 + Math.random() / 2);
}

/**
 * Resolves after the time, or at once with a rejection when the signal is aborted.
 * @param {number} milliseconds
 * @param {AbortSignal} [signal]
 */
export function pause(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const onAbort = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', onAbort);
      resolve();
    }, milliseconds);
    if (signal?.aborted) onAbort();
    else signal?.addEventListener('abort', onAbort, { once: true });
  });
}
