// The player: hls.js where the browser can be fed by a script, else the browser's own HLS. Works on what the page has
// without it: a plain video element with its own controls.
"use strict";

(() => {
  const get = (id) => document.getElementById(id);
  const player = get("player");
  if (!player) return;
  const film = get("film");
  const place = get("place");
  const menu = get("menu");
  const cues = get("cues");
  const preview = get("preview");
  const SPEEDS = [0.5, 0.75, 1, 1.25, 1.5, 2];
  const IDLE_MILLISECONDS = 2500;
  const KEY = "mediamill.player";
  const MOST_PLACES = 100;
  const AUTO = -1;
  let hls = null;
  let dragging = false;
  let previews = [];

  const files = () => `/api/videos/${player.dataset.video}/files/${player.dataset.output}/`;
  const length = () => (Number.isFinite(film.duration) && film.duration) || Number(player.dataset.length);
  const clockOf = (seconds) => {
    const whole = Math.max(0, Math.floor(seconds));
    const minutes = Math.floor(whole / 60);
    const rest = String(whole % 60).padStart(2, "0");
    return minutes < 60 ? `${minutes}:${rest}` : `${Math.floor(minutes / 60)}:${String(minutes % 60).padStart(2, "0")}:${rest}`;
  };

  // What is remembered on this machine: volume, speed, captions, and where one was in which video

  const memory = (() => {
    try {
      return { places: {}, ...JSON.parse(localStorage.getItem(KEY)) };
    } catch {
      return { places: {} };
    }
  })();
  function keep(facts) {
    Object.assign(memory, facts);
    try {
      localStorage.setItem(KEY, JSON.stringify(memory));
    } catch {
      // A full or forbidden store only means that the next visit begins at the beginning.
    }
  }
  function keepPlace() {
    const { [player.dataset.video]: _, ...others } = memory.places;
    const newest = Object.entries(others).slice(-MOST_PLACES + 1);
    const at = film.currentTime;
    const mine = at > 3 && at < 0.95 * length() ? [[player.dataset.video, Math.round(at * 10) / 10]] : [];
    keep({ places: Object.fromEntries([...newest, ...mine]) });
  }

  // The stream

  function tellTrouble(words) {
    get("trouble").textContent = words;
    get("trouble").hidden = !words;
  }

  let rescues = 0;
  function onError(_, data) {
    if (!data.fatal) return;
    if (data.type === Hls.ErrorTypes.MEDIA_ERROR && rescues++ < 2) hls.recoverMediaError();
    else if (data.type === Hls.ErrorTypes.NETWORK_ERROR && data.response?.code !== 404 && rescues++ < 5) {
      tellTrouble("The connection is lost. Trying again …");
      setTimeout(() => hls.startLoad(), 1000 * rescues);
    } else tellTrouble(data.response?.code === 404 ? "This stream is not there any more. Reload the page in a while." : "This cannot be played here.");
  }

  function open(at) {
    tellTrouble("");
    const address = `${files()}master.m3u8`;
    hls?.destroy();
    hls = null;
    if (!globalThis.Hls?.isSupported()) {
      film.src = address; // the browser's own HLS has its own choice of qualities
      film.addEventListener("loadedmetadata", () => (film.currentTime = at), { once: true });
      return;
    }
    hls = new Hls({
      startPosition: at,
      enableWorker: false, // fMP4 needs no work
      capLevelToPlayerSize: false,
      // Captions are ours: without these, hls.js leaves the text tracks alone.
      timelineController: undefined,
      subtitleTrackController: undefined,
      subtitleStreamController: undefined,
      emeController: undefined,
      cmcdController: undefined,
    });
    hls.on(Hls.Events.ERROR, onError);
    hls.on(Hls.Events.MANIFEST_PARSED, listQualities);
    hls.on(Hls.Events.LEVEL_SWITCHED, showQuality);
    hls.on(Hls.Events.FRAG_BUFFERED, () => {
      rescues = 0;
      tellTrouble("");
    });
    hls.loadSource(address);
    hls.attachMedia(film);
    player.hls = hls; // for whoever looks into it
  }

  // Qualities

  const nameOf = (level) => /([0-9]+p)\.m3u8/.exec(level.url[0])?.[1] || `${Math.min(level.width, level.height)}p`;

  function addChoice(value, words) {
    const label = document.createElement("label");
    const input = Object.assign(document.createElement("input"), { type: "radio", name: "quality", value });
    input.checked = value === AUTO;
    const name = document.createElement("span");
    name.textContent = words;
    label.append(input, name);
    get("qualities-menu").append(label);
  }

  function listQualities() {
    for (const label of get("qualities-menu").querySelectorAll("label")) label.remove();
    addChoice(AUTO, "Auto");
    const levels = hls.levels.map((level, index) => [index, level]).sort(([, one], [, other]) => other.height - one.height);
    for (const [index, level] of levels) addChoice(index, nameOf(level));
    showQuality();
  }

  function showQuality() {
    const level = hls?.levels[hls.currentLevel];
    const name = level ? nameOf(level) : "";
    get("playing").textContent = name;
    const auto = get("qualities-menu").querySelector("span");
    if (auto) auto.textContent = hls.autoLevelEnabled && name ? `Auto (${name})` : "Auto";
  }

  menu.addEventListener("change", (event) => {
    if (event.target.name === "speed") setSpeed(Number(event.target.value));
    if (event.target.name !== "quality" || !hls) return;
    // While it plays, from the next segment on, without a halt; else at once.
    if (film.paused) hls.currentLevel = Number(event.target.value);
    else hls.nextLevel = Number(event.target.value);
    showQuality();
  });

  // Playing

  const toggle = () => (film.paused ? film.play().catch(() => null) : film.pause());
  function seek(seconds) {
    player.classList.add("begun");
    film.currentTime = Math.min(Math.max(0, seconds), Math.max(0, length() - 0.1));
    showTime();
  }
  function setVolume(volume) {
    film.volume = Math.min(1, Math.max(0, volume));
    film.muted = film.volume === 0;
  }
  function setSpeed(speed) {
    film.defaultPlaybackRate = film.playbackRate = speed; // the first for when another stream is opened
    keep({ speed });
    for (const input of menu.querySelectorAll("[name=speed]")) input.checked = Number(input.value) === speed;
    tellBriefly(speed === 1 ? "Normal speed" : `${speed} ×`);
  }
  const stepSpeed = (step) => setSpeed(SPEEDS[Math.min(SPEEDS.length - 1, Math.max(0, SPEEDS.indexOf(film.playbackRate) + step))] ?? 1);

  let briefly = 0;
  function tellBriefly(words) {
    player.dataset.said = words;
    clearTimeout(briefly);
    briefly = setTimeout(() => delete player.dataset.said, 900);
  }

  function showTime() {
    const at = dragging ? Number(place.value) : film.currentTime;
    const whole = length() || 1;
    get("now").textContent = clockOf(at);
    if (!dragging) place.value = at;
    place.setAttribute("aria-valuetext", `${clockOf(at)} of ${clockOf(whole)}`);
    player.querySelector(".played").style.width = `${(100 * at) / whole}%`;
    const { buffered } = film;
    const loaded = [...Array(buffered.length).keys()].filter((index) => buffered.start(index) <= at + 0.5).map((index) => buffered.end(index));
    player.querySelector(".loaded").style.width = `${(100 * Math.max(0, ...loaded)) / whole}%`;
  }

  function showState() {
    player.classList.toggle("playing", !film.paused);
    player.classList.add("begun");
    get("play").setAttribute("aria-label", film.paused ? "Play" : "Pause");
    wakeUp();
  }

  film.addEventListener("play", showState);
  film.addEventListener("pause", () => {
    showState();
    keepPlace();
  });
  film.addEventListener("ended", keepPlace);
  film.addEventListener("timeupdate", showTime);
  film.addEventListener("progress", showTime);
  film.addEventListener("durationchange", () => {
    place.max = length();
    showTime();
  });
  for (const name of ["waiting", "seeking"]) film.addEventListener(name, () => player.classList.add("stalled"));
  for (const name of ["playing", "canplay", "seeked"]) film.addEventListener(name, () => player.classList.remove("stalled"));
  film.addEventListener("volumechange", () => {
    const off = film.muted || film.volume === 0;
    player.classList.toggle("muted", off);
    get("mute").setAttribute("aria-pressed", String(off));
    get("volume").value = film.muted ? 0 : film.volume;
    keep({ volume: film.volume, muted: film.muted });
  });
  setInterval(() => film.paused || keepPlace(), 5000);
  addEventListener("pagehide", () => film.currentTime > 0 && keepPlace());

  // Captions: drawn by us, so that they stand above the controls

  const track = () => [...film.textTracks].find((each) => each.kind === "captions");
  function drawCues() {
    const active = [...(track()?.activeCues || [])];
    cues.replaceChildren(...active.map((cue) => {
      const line = document.createElement("p");
      line.dir = "auto";
      line.append(cue.getCueAsHTML());
      return line;
    }));
    cues.hidden = !active.length || track().mode === "disabled";
  }
  function setCaptions(on) {
    const found = track();
    get("captions").hidden = !found;
    if (!found) return;
    found.mode = on ? "hidden" : "disabled";
    found.oncuechange = drawCues;
    get("captions").setAttribute("aria-pressed", String(on));
    drawCues();
  }
  const toggleCaptions = () => {
    if (!track()) return;
    const on = track().mode === "disabled";
    setCaptions(on);
    keep({ captions: on });
    tellBriefly(on ? "Captions on" : "Captions off");
  };
  // In the full screen of a telephone only the browser's own captions are seen.
  film.addEventListener("webkitbeginfullscreen", () => track()?.mode === "hidden" && (track().mode = "showing"));
  film.addEventListener("webkitendfullscreen", () => track()?.mode === "showing" && (track().mode = "hidden"));

  // Pictures for seeking

  const secondsOf = (text) => text.split(":").reduce((sum, part) => 60 * sum + Number(part), 0);
  async function readPreviews() {
    previews = [];
    const answer = await fetch(`${files()}seek.vtt`).catch(() => null);
    if (!answer?.ok) return;
    for (const block of (await answer.text()).split("\n\n").slice(1)) {
      const found = /^([\d:.]+) --> ([\d:.]+)\n(sprite-\d{3}\.jpg)#xywh=(\d+),(\d+),(\d+),(\d+)/.exec(block);
      if (found) previews.push({ end: secondsOf(found[2]), sheet: found[3], box: found.slice(4).map(Number) });
    }
  }
  function showPreview(clientX) {
    const box = get("seek").getBoundingClientRect();
    const share = Math.min(1, Math.max(0, (clientX - box.left) / box.width));
    const at = share * length();
    const found = previews.find((each) => at < each.end) || previews.at(-1);
    const picture = preview.querySelector(".picture");
    picture.hidden = !found;
    if (found) {
      const [x, y, width, height] = found.box;
      Object.assign(picture.style, { width: `${width}px`, height: `${height}px`, backgroundImage: `url("${files()}${found.sheet}")`, backgroundPosition: `-${x}px -${y}px` });
    }
    preview.querySelector(".at").textContent = clockOf(at);
    preview.hidden = false;
    const half = preview.offsetWidth / 2;
    preview.style.left = `${Math.min(box.width - half, Math.max(half, share * box.width))}px`;
  }
  get("seek").addEventListener("pointermove", (event) => showPreview(event.clientX));
  get("seek").addEventListener("pointerleave", () => dragging || (preview.hidden = true));
  place.addEventListener("input", () => {
    dragging = true;
    showTime();
  });
  place.addEventListener("change", () => {
    dragging = false;
    preview.hidden = true;
    seek(Number(place.value));
  });

  // Full screen, small window, menu

  const isFull = () => document.fullscreenElement === player;
  function toggleFull() {
    if (isFull()) document.exitFullscreen();
    else if (player.requestFullscreen) player.requestFullscreen().catch(() => null);
    else film.webkitEnterFullscreen?.();
  }
  document.addEventListener("fullscreenchange", () => {
    player.classList.toggle("full", isFull());
    get("full").setAttribute("aria-label", isFull() ? "Leave full screen" : "Full screen");
  });
  const toggleWindow = () => {
    if (document.pictureInPictureElement) document.exitPictureInPicture();
    else if (document.pictureInPictureEnabled) film.requestPictureInPicture().catch(() => null);
  };
  get("window").hidden = !document.pictureInPictureEnabled;
  function openMenu(isOpen) {
    menu.hidden = !isOpen;
    get("settings").setAttribute("aria-expanded", String(isOpen));
    if (isOpen) menu.querySelector("input:checked")?.focus();
  }
  document.addEventListener("click", (event) => {
    if (!menu.hidden && !menu.contains(event.target) && !get("settings").contains(event.target)) openMenu(false);
  });

  const buttons = {
    play: toggle,
    begin: toggle,
    back: () => seek(film.currentTime - 10),
    forward: () => seek(film.currentTime + 10),
    mute: () => (film.muted || film.volume === 0 ? ((film.muted = false), film.volume || setVolume(0.5)) : (film.muted = true)),
    captions: toggleCaptions,
    settings: () => openMenu(menu.hidden),
    window: toggleWindow,
    full: toggleFull,
  };
  for (const [id, act] of Object.entries(buttons)) get(id).addEventListener("click", act);
  get("volume").addEventListener("input", (event) => setVolume(Number(event.target.value)));
  film.addEventListener("click", (event) => {
    if (event.pointerType === "touch" && player.classList.contains("idle")) wakeUp();
    else if (menu.hidden) toggle();
  });
  film.addEventListener("dblclick", toggleFull);

  // Controls go away while one watches, and come back at the slightest move.

  let idle = 0;
  function wakeUp() {
    player.classList.remove("idle");
    clearTimeout(idle);
    idle = setTimeout(() => {
      if (!film.paused && menu.hidden && !player.querySelector("#controls:hover")) player.classList.add("idle");
    }, IDLE_MILLISECONDS);
  }
  for (const name of ["pointermove", "focusin", "keydown"]) player.addEventListener(name, wakeUp);

  // Keys, wherever on the page, but not while somebody types

  const keys = {
    k: toggle,
    " ": toggle,
    j: () => seek(film.currentTime - 10),
    l: () => seek(film.currentTime + 10),
    ArrowLeft: () => seek(film.currentTime - 5),
    ArrowRight: () => seek(film.currentTime + 5),
    f: toggleFull,
    m: buttons.mute,
    c: toggleCaptions,
    i: toggleWindow,
    "<": () => stepSpeed(-1),
    ">": () => stepSpeed(1),
  };
  // These scroll the page, unless one is at the player.
  const keysAtPlayer = { ArrowUp: () => setVolume(film.volume + 0.05), ArrowDown: () => setVolume(film.volume - 0.05) };

  document.addEventListener("keydown", (event) => {
    const { target, key } = event;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (key === "Escape" && !menu.hidden) {
      openMenu(false);
      get("settings").focus();
      return;
    }
    if (target.matches("input:not([type=range]), textarea, select") || target.isContentEditable) return;
    if (target === get("volume") && key.startsWith("Arrow")) return;
    if (key === " " && target.matches("button, a, summary")) return;
    const isAtPlayer = player.contains(target) || isFull();
    const act = /^[0-9]$/.test(key) ? () => seek((length() * Number(key)) / 10) : keys[key.length === 1 ? key.toLowerCase() : key] || (isAtPlayer && keysAtPlayer[key]);
    if (!act) return;
    event.preventDefault();
    act();
    wakeUp();
  });

  // Begin

  film.removeAttribute("controls");
  film.querySelector("source").remove();
  player.classList.add("ours");
  film.volume = memory.volume ?? 1;
  film.muted = memory.muted ?? false;
  if (memory.speed && memory.speed !== 1) setSpeed(memory.speed);
  setCaptions(memory.captions ?? false);
  open(Number(player.dataset.start) || memory.places[player.dataset.video] || 0);
  readPreviews();
  showTime();
  player.addEventListener("stream", () => {
    open(film.currentTime);
    readPreviews();
  });
  player.addEventListener("captioned", () => setCaptions(memory.captions ?? false));
})();
