/** Gets the file of a message into the staging folder: room first, then a few tries, once with a new upload. */
import { rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { downloadMedia, MediaFault, PART } from './download.mjs';
import { pause, timing } from './timing.mjs';

/**
 * @param {object} job
 * @param {string} job.guid
 * @param {string} job.kind image, video, audio, document or sticker
 * @param {string} job.mimeType as claimed
 * @param {import('./download.mjs').Media} job.media changed in place by a new upload
 * @param {object} place
 * @param {string} place.staging
 * @param {import('./quota.mjs').Quota} place.quota
 * @param {number} place.limitBytes
 * @param {() => Promise<void>} place.online waits while there is no network, which is no fault of the file
 * @param {() => Promise<void>} place.askForUpload asks the sender's phone to upload the file again
 * @param {AbortSignal} place.signal
 * @param {import('pino').Logger} place.log
 * @returns {Promise<{mime_type: string, quota_exceeded: boolean}>}
 */
export async function obtainMedia(job, place) {
  const target = join(place.staging, job.guid);
  // Left by a run that was killed after the download and before it was written down.
  if (await exists(target)) return { mime_type: job.mimeType, quota_exceeded: false };
  await rm(target + PART, { force: true });
  const fault = await tryInRoom(job, target, place);
  if (!fault) return { mime_type: job.mimeType, quota_exceeded: false };
  place.log.warn({ guid: job.guid, code: fault.code, fault: fault.message }, 'a media file could not be had');
  return { mime_type: `media_corrupt_${job.kind}`, quota_exceeded: fault.noRoom };
}

async function tryInRoom(job, target, place) {
  const announced = announcedBytes(job.media.fileLength);
  if (announced > timing.largestMediaBytes) {
    return new MediaFault('too_long', 'the announced length is beyond the limit', { final: true });
  }
  const room = await place.quota.reserve(announced, place.limitBytes);
  if (!room) return new MediaFault('quota', 'the staging folder is full', { final: true, noRoom: true });
  let written = 0;
  try {
    written = await tryRepeatedly(job, target, place, room);
    return null;
  } catch (error) {
    if (place.signal.aborted || !(error instanceof MediaFault)) throw error;
    return error;
  } finally {
    room.release(written);
  }
}

async function tryRepeatedly(job, target, place, room) {
  let mayAskForUpload = true;
  for (let attempt = 1; ; attempt += 1) {
    await place.online();
    try {
      return await downloadMedia(job.media, job.kind, target, room, place.signal);
    } catch (error) {
      if (place.signal.aborted) throw error;
      place.log.info({ guid: job.guid, attempt, code: error.code }, 'a download failed');
      if (error.gone && mayAskForUpload) {
        mayAskForUpload = false;
        if (await uploadedAgain(job, place)) {
          attempt -= 1;
          continue;
        }
      }
      if (error.final || attempt >= timing.downloadTries) throw error;
      await pause(timing.downloadPauseSeconds[attempt - 1] * 1000, place.signal);
    }
  }
}

async function uploadedAgain(job, place) {
  try {
    await place.askForUpload();
    return true;
  } catch (error) {
    if (place.signal.aborted) throw error;
    place.log.info({ guid: job.guid, fault: error.message }, 'a new upload was asked for in vain');
    return false;
  }
}

function announcedBytes(fileLength) {
  const bytes = Number(fileLength ?? 0);
  return Number.isFinite(bytes) && bytes > 0 ? bytes : 0;
}

/** @param {string} file */
export async function exists(file) {
  return stat(file).then(
    () => true,
    () => false,
  );
}
