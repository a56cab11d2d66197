"""When a model server may be asked next: learned from its refusals, shared by all callers of a machine.

A refusal closes the server for everybody, for as long as it asks, or else for a pause that doubles each time, partly by
chance. After refusals for their number (429), requests keep a distance, too: twice as large after each refusal that
names no time, a twentieth smaller after each answer. So a server that is down is asked once a minute, and one that
allows six requests a minute refuses about one in four.

The figures lie in a small file that every caller maps into its memory. There are no locks: a caller may hold none, and
one that was taken over could keep it for ever. Two that ask at the same moment cost one request more, nothing else.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import random
import struct
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import httpx

from mediamill.processors.models.calls import CallFailed, Outcome, Reply
from mediamill.processors.models.rate_limits import LONGEST_ASKED_SECONDS, TOO_MANY, asked_seconds

FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 60.0
FIRST_DISTANCE_SECONDS = 0.25
LONGEST_DISTANCE_SECONDS = 15.0
NEARER = 0.95  # after each answer
REFUSED = frozenset({TOO_MANY, 502, 503, 529})
UNAVAILABLE = frozenset({"unreachable", "transport"})
_RECORD = struct.Struct("<dddI")
_SLOT_BYTES, _SLOTS = 32, 256  # two servers in one slot, which is rare, wait for each other


@dataclass(frozen=True, slots=True)
class Pace:
    """What is known of a server. Times are those of the wall clock, which all processes share."""

    closed_until: float = 0.0
    refused_at: float = 0.0
    distance: float = 0.0
    refusals: int = 0

    def wait_seconds(self, now: float) -> float:
        """How long not to ask; never longer than anybody may ask for, whatever the file says."""
        return min(max(0.0, self.closed_until - now), LONGEST_ASKED_SECONDS)

    def taken(self, now: float) -> Pace:
        """A request goes out now; the next one keeps its distance."""
        return replace(self, closed_until=now + self.distance)

    def learned(self, outcome: Outcome, began: float, now: float) -> Pace:
        """What the outcome of a request says that began at this time."""
        asked = _asked(outcome)
        if not is_refusal(outcome):
            if isinstance(outcome, CallFailed):
                return self
            closed_until = max(self.closed_until, now + (asked or 0.0))
            shorter = self.distance * NEARER
            distance = shorter if shorter > FIRST_DISTANCE_SECONDS / 2 else 0.0
            return Pace(closed_until, self.refused_at, distance, 0)
        if began < self.refused_at:  # sent before the last refusal was known: the same one for us
            return replace(self, closed_until=max(self.closed_until, now + (asked or 0.0)))
        pause = max(asked or 0.0, _pause(self.refusals) if asked is None or self.refusals else 0.0)
        return Pace(now + pause, now, self._kept_distance(outcome, asked), self.refusals + 1)

    def _kept_distance(self, outcome: Outcome, asked: float | None) -> float:
        too_many = isinstance(outcome, Reply) and outcome.status == TOO_MANY
        wider = 2 * self.distance if too_many and asked is None else self.distance
        return min(max(wider, FIRST_DISTANCE_SECONDS), LONGEST_DISTANCE_SECONDS)


def is_refusal(outcome: Outcome) -> bool:
    """Is the server busy or unavailable, whatever it was asked?"""
    if isinstance(outcome, CallFailed):
        return outcome.kind in UNAVAILABLE
    return outcome.status in REFUSED


def _asked(outcome: Outcome) -> float | None:
    if isinstance(outcome, CallFailed):
        return None
    return asked_seconds(outcome.status, httpx.Headers(outcome.headers))


def _pause(refusals: int) -> float:
    longest = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** min(refusals, 20))
    return longest * random.uniform(0.75, 1.25)  # noqa: S311 - so that many machines do not come back at once


class Paces:
    """The paces of all servers, in a file that others may have open, too."""

    def __init__(self, descriptor: int) -> None:
        self._map = mmap.mmap(descriptor, _SLOTS * _SLOT_BYTES)

    def take(self, url: str) -> float:
        """0: a request may go out, and has been counted. Else how long to wait."""
        now, pace = time.time(), self._read(url)
        wait = pace.wait_seconds(now)
        if not wait:
            self._write(url, pace.taken(now))
        return wait

    def learn(self, url: str, outcome: Outcome, began: float) -> float:
        """How long to wait now."""
        now = time.time()
        pace = self._read(url).learned(outcome, began, now)
        self._write(url, pace)
        return pace.wait_seconds(now)

    def _read(self, url: str) -> Pace:
        return Pace(*_RECORD.unpack_from(self._map, _slot(url)))

    def _write(self, url: str, pace: Pace) -> None:
        record = (pace.closed_until, pace.refused_at, pace.distance, min(pace.refusals, 1000))
        _RECORD.pack_into(self._map, _slot(url), *record)


def open_paces(file: Path | None) -> int:
    """A descriptor for `Paces`; without a file it is nobody else's. It is made if it is missing."""
    if file is None:
        with tempfile.TemporaryFile() as made:
            descriptor = os.dup(made.fileno())
    else:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(file, flags, 0o600)
    os.ftruncate(descriptor, _SLOTS * _SLOT_BYTES)
    return descriptor


def _slot(url: str) -> int:
    address = httpx.URL(url)
    origin = f"{address.scheme}://{address.host}:{address.port}".encode()
    return hashlib.sha256(origin).digest()[0] * _SLOT_BYTES
