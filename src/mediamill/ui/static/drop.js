// Files and whole folders that are dropped on a page, or on a part of it.

export const isHidden = (path) => path.split("/").some((part) => part.startsWith("."));

const fileOf = (entry) => new Promise((resolve, reject) => entry.file(resolve, reject));
const someOf = (reader) => new Promise((resolve, reject) => reader.readEntries(resolve, reject));

async function childrenOf(folder) {
  const reader = folder.createReader();
  const children = [];
  for (let some = await someOf(reader); some.length; some = await someOf(reader)) children.push(...some); // it gives some at a time
  return children.filter((child) => !isHidden(child.name));
}

// What cannot be read is told, and the rest is taken all the same.

async function walk(entry, found) {
  const name = entry.fullPath.replace(/^\//, "");
  try {
    if (entry.isFile) found.files.push({ file: await fileOf(entry), name });
    else for (const child of await childrenOf(entry)) await walk(child, found);
  } catch {
    found.unread.push(name);
  }
}

async function filesIn(carried) {
  // All at once: what is carried is gone when the event is over.
  const items = [...carried.items].filter((item) => item.kind === "file");
  const things = items.map((item) => ({ entry: item.webkitGetAsEntry?.(), file: item.getAsFile() }));
  const found = { files: [], unread: [] };
  for (const { entry, file } of things) {
    if (entry?.isDirectory) await walk(entry, found);
    else if (file) found.files.push({ file, name: file.name });
  }
  return found;
}

// `take` gets every file with its name, which has the folders in it, and the names of what could not be read. While
// files are over the place, what is marked has the class `dropping`.

export function takeDrops(place, marked, take) {
  const hasFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  let over = 0;
  const hear = (name, act) =>
    place.addEventListener(name, (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      act(event);
      marked.classList.toggle("dropping", over > 0);
    });
  hear("dragenter", () => (over += 1));
  hear("dragleave", () => (over = Math.max(0, over - 1)));
  hear("dragover", () => {});
  hear("drop", (event) => {
    over = 0;
    filesIn(event.dataTransfer).then(({ files, unread }) => take(files, unread));
  });
}

export const wordsOfUnread = (unread) => (unread.length ? [`${unread.join(", ")} could not be read.`] : []);
