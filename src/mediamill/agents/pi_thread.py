"""What pi remembers of a thread, on disk: its session file, which a run that fails leaves as it was before.

While a run goes on, a note says how long the session file was and which inputs are in the run. Whoever starts pi and
finds a note cuts the file back to that length: no half turn and no image that the model chokes on stays in a
conversation. Whoever asks again for an input that the note names keeps what pi had answered whole. Of the last inputs
that were answered, their keys say where in the file the answers lie, so that an answer can be given again.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from mediamill.agents.contract import LONGEST_ANSWER_CHARACTERS, Turn
from mediamill.agents.pi_transcript import Answered, history_lines, read_answered

KEYS_KEPT = 32


@dataclass(frozen=True, slots=True)
class _Running:
    size: int
    keys: tuple[str | None, ...]  # in the order in which pi takes the inputs up


@dataclass(frozen=True, slots=True)
class _Settled:
    key: str
    entry_id: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Note:
    running: _Running | None = None
    settled: tuple[_Settled, ...] = ()


class PiThread:
    """The folder of one thread; its name says nothing about the thread's key."""

    def __init__(self, folder: Path, thread_key: str) -> None:
        self.folder = folder / hashlib.sha256(thread_key.encode()).hexdigest()
        self.session = self.folder / "session.jsonl"
        self.instructions = self.folder / "instructions.txt"
        self.work = self.folder / "work"
        self._note = self.folder / "runs.json"

    def prepare(self, instructions: str, history: Sequence[Turn], model: str) -> None:
        """Make it ready for a start of pi: nothing half done in it, and a history if there is none yet."""
        self.work.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.rewind()
        self.instructions.write_text(instructions)
        if history and not self.session.exists():
            lines = history_lines(history, model, str(self.work))
            _replace(self.session, "".join(json.dumps(line) + "\n" for line in lines))

    def try_lock(self) -> int | None:
        """A lock to hand to the pi process, which holds it for its life; None while an older one still lives."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return lock_folder(self.folder)

    def begin(self, keys: Sequence[str | None]) -> None:
        """A run begins here, with these inputs."""
        self._write(replace(self._read(), running=_Running(self._size(), tuple(keys))))

    def hear(self, keys: Sequence[str | None]) -> None:
        """These are the inputs of the run now."""
        note = self._read()
        if note.running is not None:
            self._write(replace(note, running=replace(note.running, keys=tuple(keys))))

    def settle(self) -> None:
        """The run is done, and stays."""
        note = self._read()
        found: Sequence[Answered] = ()
        if note.running is not None and any(note.running.keys) and self.session.exists():
            found, _ = read_answered(self.session, note.running.size)
        self._write(_settled(note, found))

    def is_left(self, key: str) -> bool:
        """Whether a run with this input did not settle."""
        running = self._read().running
        return running is not None and key in running.keys

    def recover(self) -> None:
        """Keep what was answered whole in the run that did not settle. Only while no pi process has the file."""
        note = self._read()
        if note.running is None or not self.session.exists():
            return
        found, kept = read_answered(self.session, note.running.size)
        if 0 < sum(len(each.text) for each in found) <= LONGEST_ANSWER_CHARACTERS:
            os.truncate(self.session, kept)
            self._write(_settled(note, found))

    def rewind(self) -> None:
        """Forget the run that did not settle, if there was one. Only while no pi process has the file."""
        note = self._read()
        if note.running is None:
            return
        if note.running.size == 0:
            self.session.unlink(missing_ok=True)
        elif note.running.size < self._size():
            os.truncate(self.session, note.running.size)
        self._write(replace(note, running=None))

    def answer_to(self, key: str) -> str | None:
        """What was answered to this input, if it is one of the last that were."""
        place = next((each for each in self._read().settled if each.key == key), None)
        if place is None or not self.session.exists():
            return None
        found, _ = read_answered(self.session, place.start, place.end)
        return next((each.text for each in found if each.entry_id == place.entry_id), None)

    def _size(self) -> int:
        return self.session.stat().st_size if self.session.exists() else 0

    def _read(self) -> _Note:
        try:
            told = json.loads(self._note.read_bytes())
            running = told["running"] and _Running(told["running"]["size"], tuple(told["running"]["keys"]))
            return _Note(running, tuple(_Settled(**each) for each in told["settled"]))
        except (FileNotFoundError, ValueError, LookupError, TypeError):
            return _Note()

    def _write(self, note: _Note) -> None:
        _replace(self._note, json.dumps(asdict(note)))


def lock_folder(folder: Path) -> int | None:
    """The lock of a thread's folder, if it is free and the folder is still there."""
    path = folder / "lock"
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(lock), path.stat()):  # else the folder was deleted meanwhile
            return lock
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(lock)
    return None


def _settled(note: _Note, found: Sequence[Answered]) -> _Note:
    """The note when the run is over, of which these inputs were answered."""
    keys = note.running.keys if note.running else ()
    new = [
        _Settled(key, each.entry_id, each.start, each.end)
        for key, each in zip(keys, found, strict=False)
        if key is not None
    ]
    names = {each.key for each in new}
    old = [each for each in note.settled if each.key not in names]
    return _Note(None, tuple([*old, *new][-KEYS_KEPT:]))


def _replace(path: Path, text: str) -> None:
    """All of it or nothing."""
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    fresh.replace(path)
