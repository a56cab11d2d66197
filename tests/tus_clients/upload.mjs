// Uploads a file by a client of tus that others wrote, breaks off after the first chunk, and resumes.
// node upload.mjs CLIENT ENDPOINT TOKEN FILE FOLDER; prints where it lies and the offset from which it was resumed.

import { readFileSync } from "node:fs";
import { basename, join } from "node:path";
import Uppy from "@uppy/core";
import Tus from "@uppy/tus";
import * as tus from "tus-js-client";

const CHUNK_BYTES = 300_000;
const [client, endpoint, token, path, folder] = process.argv.slice(2);
const data = readFileSync(path);
let resumedFrom = null;
const shared = {
  endpoint,
  headers: { Authorization: `Bearer ${token}` },
  chunkSize: CHUNK_BYTES,
  retryDelays: [],
  onAfterResponse(request, response) {
    if (request.getMethod() === "HEAD") resumedFrom = Number(response.getHeader("Upload-Offset"));
  },
};

/** By tus-js-client: a new upload finds the old one in a file, as another process would. */
async function byTusJs() {
  const options = { ...shared, metadata: { filename: basename(path) }, urlStorage: new tus.FileUrlStorage(join(folder, "urls.json")) };
  await new Promise((resolve, reject) => {
    const first = new tus.Upload(data, {
      ...options,
      onError: reject,
      onChunkComplete: () => first.abort().then(resolve, reject),
    });
    first.start();
  });
  return new Promise((resolve, reject) => {
    const second = new tus.Upload(data, { ...options, onError: reject, onSuccess: () => resolve(second.url) });
    second.findPreviousUploads().then(([previous]) => {
      if (!previous) throw new Error("the upload before is not known");
      second.resumeFromPreviousUpload(previous);
      second.start();
    }).catch(reject);
  });
}

/** By Uppy: paused and resumed, as by its buttons. */
async function byUppy() {
  const uppy = new Uppy().use(Tus, { ...shared, storeFingerprintForResuming: false });
  let paused = false;
  uppy.on("upload-progress", (file, { bytesUploaded }) => {
    if (paused || bytesUploaded < CHUNK_BYTES) return;
    paused = true;
    uppy.pauseResume(file.id);
    setTimeout(() => uppy.pauseResume(file.id));
  });
  uppy.addFile({ name: basename(path), type: "video/mp4", data: Object.assign(data, { size: data.length }) });
  const { successful, failed } = await uppy.upload();
  if (failed.length) throw failed[0].error;
  return successful[0].uploadURL;
}

const url = await { "tus-js-client": byTusJs, uppy: byUppy }[client]();
console.log(JSON.stringify({ url, resumedFrom }));
