"""The list of a backup's files: a line of JSON each, in the order of the walk. It is read as a stream."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO

from mediamill.backup.model import LINE_BYTES, BackupDamagedError, Entry, Key, check_path, order_of

BIG_BYTES = 1 << 20


@dataclass
class ListingWriter:
    """Adds lines; what a large file cost is not lost with a buffer."""

    file: IO[str]
    count: int = 0
    total_bytes: int = 0

    def add(self, entry: Entry) -> None:
        """One more."""
        self.file.write(json.dumps(asdict(entry)) + "\n")
        self.count += 1
        self.total_bytes += entry.bytes
        if entry.bytes >= BIG_BYTES:
            self.file.flush()


def read_listing(path: Path, *, cut_off: bool = False) -> Iterator[Entry]:
    """Its entries. `cut_off`: as far as it can be read; of a backup that was killed, as far as it came."""
    with path.open("r", encoding="ascii", errors="replace") as file:
        number = 0
        while line := file.readline(LINE_BYTES):
            number += 1
            try:
                yield _read_line(line)
            except (BackupDamagedError, ValueError, TypeError, KeyError) as error:
                if cut_off:
                    return
                raise BackupDamagedError(f"line {number} of {path.name}: {error}") from None


def _read_line(line: str) -> Entry:
    if not line.endswith("\n"):
        raise ValueError("it is cut off")
    said = json.loads(line)
    entry = Entry(said["path"], said["bytes"], said["mtime_ns"], said["sha256"], said["settled"])
    kinds = (str, int, int, str, bool)
    given = (entry.path, entry.bytes, entry.mtime_ns, entry.sha256, entry.settled)
    if not all(type(value) is kind for value, kind in zip(given, kinds, strict=True)) or entry.bytes < 0:
        raise ValueError("a value has the wrong type")
    if abs(entry.mtime_ns) >= 2**63:
        raise ValueError("no file can have that time")
    check_path(entry.path)
    return entry


@dataclass
class Earlier:
    """Files of an earlier backup, or of one that was cut off, from which unchanged ones are taken over.

    Both lists have the same order, so one look goes along with the other; nothing is held in memory.
    """

    files: Path
    entries: Iterator[Entry]
    consume: bool = False  # its files may be moved away: nobody else wants them
    gone: Callable[[Entry], None] = lambda _: None  # told of each that is not looked for
    _next: Entry | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._next = next(self.entries, None)

    def find(self, key: Key) -> Entry | None:
        """The entry of this path; keys must come in ascending order."""
        while self._next is not None and order_of(self._next.parts) < key:
            self._pass_by(self._next)
        if self._next is None or order_of(self._next.parts) != key:
            return None
        found, self._next = self._next, next(self.entries, None)
        return found

    def end(self) -> None:
        """Nothing more is looked for."""
        while self._next is not None:
            self._pass_by(self._next)

    def _pass_by(self, entry: Entry) -> None:
        self.gone(entry)
        self._next = next(self.entries, None)
