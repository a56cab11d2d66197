"""Hostile frames for a bridge's door, by the thousand and by a seed: what became of them, in figures.

Each frame is followed until it has its answer. Good messages go in between, to see that the line still works; only a
frame beyond the size limit, or text that is no UTF-8, may end it.
"""

from __future__ import annotations

import asyncio
import json
import random
import string
import time
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

ANSWER_SECONDS = 30.0
GOOD_EVERY = 20
LARGEST_FRAME_BYTES = 1024**2
SHOWN = 10

Said = str | bytes


@dataclass
class BridgeFuzzReport:
    """What became of the frames. `faults`: each is a bug."""

    seed: int
    frames: int = 0
    acked: int = 0
    refused: int = 0
    later: int = 0
    unanswered: int = 0  # a status that was fine gets no answer
    lines_ended: int = 0
    good_sent: int = 0
    by_code: Counter[str] = field(default_factory=Counter)
    slowest_seconds: float = 0
    seconds: float = 0
    faults: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        """No frame did harm."""
        return not self.faults

    def as_dict(self) -> dict[str, Any]:
        """For scripts."""
        return {**asdict(self), "by_code": dict(sorted(self.by_code.items())), "is_clean": self.is_clean}


def good_payload(chance: random.Random) -> dict[str, Any]:
    """A payload as protocol.md has it, with every field."""
    number = chance.randrange(10**9)
    return {
        "provider_message_id": f"3EB0{chance.getrandbits(64):016X}",
        "sender": f"4917{number:09}@s.whatsapp.net",
        "message": "hello",
        "direction": "incoming",
        "originating_time": 1_790_000_000 + number % 1_000_000,
        "display_name": "Ann",
        "group": None,
        "alternate_identifiers": [f"{number}@lid"],
        "recipient_id": None,
        "actual_sender": None,
        "media_processing_id": str(uuid.UUID(int=chance.getrandbits(128))),
        "mime_type": "application/x-fuzz",
        "original_filename": "a.bin",
        "_quota_exceeded": False,
    }


def _frame(payload: Any, **more: Any) -> str:
    return json.dumps({"type": "message", "spool_id": "fuzz", "payload": payload, **more})


def _hostile_text(chance: random.Random) -> str:
    makers: list[Callable[[], str]] = [
        lambda: "",
        lambda: "\0" * chance.randrange(1, 50),
        lambda: "\ud800" + "x" * chance.randrange(5),
        lambda: chance.choice("axé漢😀") * chance.choice([255, 256, 257, 1_000, 1_001]),
        lambda: "../" * chance.randrange(1, 60) + "etc/passwd",
        lambda: "'; drop table arrivals; --",
        lambda: "".join(chance.choice(string.printable) for _ in range(chance.randrange(40))),
        lambda: "".join(chr(chance.randrange(1, 0x3000)) for _ in range(chance.randrange(40))),
        lambda: "\u202e\u2066\ufeff%s%n{0}${jndi:x}",
    ]
    return chance.choice(makers)()


def _hostile_value(chance: random.Random, depth: int = 0) -> Any:
    makers: list[Callable[[], Any]] = [
        lambda: None,
        lambda: chance.choice([True, False]),
        lambda: chance.choice([0, -1, 2**31, 2**63, -(2**63) - 1, 10**40, 1.5, -0.0, 1e308]),
        lambda: _hostile_text(chance),
        lambda: [_hostile_value(chance, depth + 1) for _ in range(chance.choice([0, 1, 3, 21, 30]))],
        lambda: {
            _hostile_text(chance)[:50]: _hostile_value(chance, depth + 1) for _ in range(chance.randrange(4))
        },
    ]
    return chance.choice(makers[: 4 if depth > 2 else 6])()


def _wrong_fields(chance: random.Random) -> Said:
    payload = good_payload(chance)
    for name in chance.sample(sorted(payload), chance.randrange(1, 4)):
        if chance.random() < 0.2:
            del payload[name]
        else:
            payload[name] = _hostile_value(chance)
    return _frame(payload)


def _wrong_frame(chance: random.Random) -> Said:
    parts: dict[str, Any] = {"type": "message", "spool_id": "fuzz", "payload": good_payload(chance)}
    parts[chance.choice(["type", "spool_id", "payload", "status"])] = _hostile_value(chance)
    return json.dumps(parts)


def _wrong_status(chance: random.Random) -> Said:
    status: dict[str, Any] = {"state": "connected", "qr": None, "me": {"identifier": "x"}, "detail": None}
    status |= {"spool": {"waiting": 0, "downloading": 0}, "quota": {"used_bytes": 0, "limit_bytes": 1}}
    status[chance.choice(sorted(status))] = _hostile_value(chance)
    return json.dumps({"type": "status", "spool_id": "fuzz", "status": status})


def _mutated(chance: random.Random) -> Said:
    text = list(_frame(good_payload(chance)))
    for _ in range(chance.randrange(1, 6)):
        place = chance.randrange(len(text))
        text[place] = chance.choice(
            ['"', "\\", "{", "}", "[", "]", ",", ":", "\0", "9", "e", "\\u", "", "é", "\x7f"]
        )
    return "".join(text)[: chance.choice([None, chance.randrange(1, 400)])]


def _deep(chance: random.Random) -> Said:
    depth = chance.choice([100, 900, 5_000, 100_000])
    opening, closing = chance.choice([("[", "]"), ('{"a":', "}")])
    nested = opening * depth + "1" + closing * chance.choice([depth, 0])
    return chance.choice([nested, f'{{"type": "message", "spool_id": "fuzz", "payload": {nested}}}'])


def _repeated(chance: random.Random) -> Said:
    whole = _frame(good_payload(chance))
    return chance.choice(
        [whole[:-1] + ', "spool_id": "other"}', whole[:-1] + ', "payload": {}}', whole + whole]
    )


def _numbers(chance: random.Random) -> Said:
    number = chance.choice(
        ["9" * 5_000, "1e999999", "-1e400", "NaN", "Infinity", "0x10", "01", "1" + "0" * 4_000]
    )
    payload = json.dumps({**good_payload(chance), "originating_time": "@"}).replace('"@"', number)
    return f'{{"type": "message", "spool_id": "fuzz", "payload": {payload}}}'


def _binary(chance: random.Random) -> Said:
    return chance.choice([chance.randbytes(chance.randrange(200)), _frame(good_payload(chance)).encode()])


def _giant(chance: random.Random) -> Said:
    """Up to just below the limit, in one field or in very many."""
    room = LARGEST_FRAME_BYTES - 2_000
    if chance.random() < 0.5:
        length = chance.choice([200_000, 200_001, room])
        return _frame({**good_payload(chance), chance.choice(["message", "sender", "new"]): "x" * length})
    return _frame({**good_payload(chance), "alternate_identifiers": [0] * (room // 3)})


KINDS: dict[Callable[[random.Random], Said], int] = {
    _wrong_fields: 40,
    _wrong_frame: 12,
    _wrong_status: 10,
    _mutated: 20,
    _deep: 4,
    _repeated: 4,
    _numbers: 4,
    _binary: 4,
    _giant: 1,
}


def hostile_frame(chance: random.Random) -> Said:
    """The next one; those beyond the limit have a part of their own."""
    while True:
        [maker] = chance.choices(list(KINDS), list(KINDS.values()))
        said = maker(chance)
        if len(said if isinstance(said, bytes) else said.encode()) < LARGEST_FRAME_BYTES:
            return said


class BridgeFuzz:
    """One run against the door of one bot. `url`: the whole address of the door."""

    def __init__(self, url: str, secret: str, *, frames: int = 2_000, seed: int = 1) -> None:
        self._url, self._frames = url, frames
        self._headers = {"Authorization": f"Bearer {secret}", "X-Bridge-Id": "fuzz"}
        self._chance = random.Random(seed)  # noqa: S311 - the same frames again
        self.report = BridgeFuzzReport(seed)

    async def run(self) -> BridgeFuzzReport:
        """All frames; the figures."""
        began = time.monotonic()
        report = self.report
        while report.frames < self._frames and len(report.faults) < SHOWN:
            async with self._connect() as line:
                await self._talk(line)
        await self._break_off("x" * (LARGEST_FRAME_BYTES + 1))
        await self._break_off(b"\xff\xfe")
        async with self._connect() as line:
            await self._check_line(line)
        report.seconds = time.monotonic() - began
        return report

    def _connect(self) -> connect:
        return connect(self._url, additional_headers=self._headers, proxy=None, compression=None)

    async def _talk(self, line: ClientConnection) -> None:
        """Until all frames are said, or the line has ended, which is a fault."""
        said: Said = ""
        try:
            while self.report.frames < self._frames:
                said = hostile_frame(self._chance)
                self.report.frames += 1
                await self._say(line, said)
                if self.report.frames % GOOD_EVERY == 0:
                    await self._check_line(line)
        except ConnectionClosed as closed:
            self._fault(f"the line ended ({closed})", said)
        except TimeoutError:
            self._fault("no answer", said)

    async def _say(self, line: ClientConnection, said: Said) -> None:
        """A frame and its answer. A status may be fine after all: then the next good message is answered first."""
        await line.send(said)
        began = time.monotonic()
        mark = f"mark {self.report.frames}"
        await line.send(json.dumps({"type": "mark", "spool_id": mark}))
        answers: list[dict[str, Any]] = []
        while not answers or answers[-1].get("spool_id") != mark:
            answers.append(await self._hear(line))
        self.report.slowest_seconds = max(self.report.slowest_seconds, time.monotonic() - began)
        if len(answers) == 1 and self._may_be_message(said):
            answers.insert(0, await self._hear(line))  # it takes longer than the mark
        self._count(answers[0] if len(answers) > 1 else None, said)

    @staticmethod
    def _may_be_message(said: Said) -> bool:
        """Only a status that is fine gets no answer."""
        try:
            return bool(json.loads(said).get("type") != "status")
        except (ValueError, AttributeError, RecursionError):
            return True

    def _count(self, answer: dict[str, Any] | None, said: Said) -> None:
        report = self.report
        kind = answer["type"] if answer is not None else "unanswered"
        if kind == "ack":
            report.acked += 1
        elif kind == "refused" and answer is not None:
            report.refused += 1
            report.by_code[str(answer.get("code"))] += 1
            if not (answer.get("code") and answer.get("detail") and answer.get("faults")):
                self._fault("a refusal without reason", said)
        elif kind == "unanswered":
            report.unanswered += 1
        else:
            report.later += 1
            self._fault(f"answered {kind}", said)

    async def _check_line(self, line: ClientConnection) -> None:
        """A good message is taken as ever."""
        spool_id = f"good {self.report.good_sent}"
        self.report.good_sent += 1
        payload = good_payload(self._chance) | {"media_processing_id": None, "mime_type": None}
        await line.send(_frame(payload, spool_id=spool_id))
        if await self._hear(line) != {"type": "ack", "spool_id": spool_id}:
            self._fault("a good message was not acknowledged", "")

    async def _break_off(self, said: Said) -> None:
        """What may end the line, and must end nothing else."""
        async with self._connect() as line:
            try:
                await line.send(said, text=True)
                while True:
                    await self._hear(line)
            except ConnectionClosed:
                self.report.lines_ended += 1
            except TimeoutError:
                self._fault("a frame beyond the limit was taken", "")

    async def _hear(self, line: ClientConnection) -> dict[str, Any]:
        async with asyncio.timeout(ANSWER_SECONDS):
            answer: dict[str, Any] = json.loads(await line.recv())
            return answer

    def _fault(self, what: str, said: Said) -> None:
        self.report.faults.append(f"{what}: {said[:200]!r}")
