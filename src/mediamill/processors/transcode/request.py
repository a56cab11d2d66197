"""What a job asks for, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from mediamill.errors import GiveUpError
from mediamill.processors.transcode.encoders import ENCODERS, PRESETS
from mediamill.processors.transcode.kept import Facts
from mediamill.processors.transcode.ladder import QUALITIES

SHORTEST_SEGMENT, LONGEST_SEGMENT = 1, 30  # seconds


class BadRequestError(GiveUpError):
    """The job asks for something that cannot be done."""

    code = "invalid_payload"


@dataclass(frozen=True, slots=True)
class Request:
    """The payload of a job."""

    qualities: tuple[str, ...] | None  # None: all
    skip: tuple[str, ...]  # made already; they go into the master as they are
    critical: str  # "lowest", or a quality
    segment_seconds: Fraction
    preset: str
    encoder: str
    resume: bool

    @classmethod
    def read(cls, payload: Mapping[str, Any]) -> Request:
        """Refuses what cannot be meant."""
        seconds = payload.get("segment_seconds", 4)
        if not isinstance(seconds, int | float) or not SHORTEST_SEGMENT <= seconds <= LONGEST_SEGMENT:
            raise BadRequestError(
                f"segment_seconds must be between {SHORTEST_SEGMENT} and {LONGEST_SEGMENT}, not {seconds!r}"
            )
        wanted = payload.get("qualities")
        return cls(
            qualities=None if wanted is None else _names(wanted),
            skip=_names(payload.get("skip") or ()),
            critical=_one_of("critical", payload.get("critical", "lowest"), ("lowest", *QUALITIES)),
            segment_seconds=Fraction(seconds).limit_denominator(1000),
            preset=_one_of("preset", payload.get("preset", "veryfast"), PRESETS),
            encoder=_one_of("encoder", payload.get("encoder", "auto"), ("auto", *ENCODERS)),
            resume=payload.get("resume", True) is not False,
        )

    def usable(self, kept: Mapping[str, Facts]) -> Mapping[str, Facts]:
        """Without resuming, only what is to be skipped counts of what is kept."""
        if self.resume:
            return kept
        return {name: facts for name, facts in kept.items() if facts.get("quality") in self.skip}


def _names(given: Any) -> tuple[str, ...]:
    if not isinstance(given, list | tuple) or not all(isinstance(name, str) for name in given):
        raise BadRequestError(f"qualities must be a list of names, not {given!r}"[:300])
    return tuple(dict.fromkeys(given))


def _one_of(what: str, given: Any, allowed: tuple[str, ...]) -> str:
    if given not in allowed:
        raise BadRequestError(f"{what} must be one of {', '.join(allowed)}, not {given!r}"[:400])
    return str(given)
