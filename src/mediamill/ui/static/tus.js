// What uploads need besides themselves: one request with its progress, what is remembered over a reload, and words.

const KEY = "mediamill.uploads";

export const sizeOf = (bytes) => {
  const step = [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]].find(([size]) => bytes >= size) || [1, "B"];
  return `${(bytes / step[0]).toFixed(bytes / step[0] < 100 && step[0] > 1 ? 1 : 0)} ${step[1]}`;
};
export const spanOf = (seconds) => {
  if (seconds < 90) return `${Math.max(1, Math.round(seconds))} s`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
};
export const titleOf = (name) => name.replace(/(?<=.)\.[^.]*$/, "").replaceAll("_", " ").trim().slice(0, 200) || "Untitled";
export const base64 = (text) => btoa(String.fromCharCode(...new TextEncoder().encode(text)));

// What was begun and is not finished is remembered over a reload: its fingerprint leads back to it.

export const remembered = () => {
  try {
    return JSON.parse(localStorage.getItem(KEY)) || {};
  } catch {
    return {};
  }
};
export function remember(fingerprint, facts) {
  const all = remembered();
  if (facts) all[fingerprint] = facts;
  else delete all[fingerprint];
  try {
    localStorage.setItem(KEY, JSON.stringify(all));
  } catch {
    // A full or forbidden store only means that a reload forgets.
  }
}

// One request. XMLHttpRequest, because fetch does not tell how far a body is.

export function send(method, address, headers, body, onProgress, holder) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    if (holder) holder.request = request;
    request.open(method, address);
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
    if (onProgress) request.upload.onprogress = (event) => onProgress(event.loaded);
    request.onload = () => resolve(request);
    request.onerror = () => reject(new Error("lost"));
    request.onabort = () => reject(new Error("aborted"));
    request.send(body);
  });
}

export function problemOf(request) {
  try {
    const problem = JSON.parse(request.responseText);
    return `${problem.detail}${problem.fix ? ` (${problem.fix})` : ""}`;
  } catch {
    return `The server answered ${request.status}.`;
  }
}
