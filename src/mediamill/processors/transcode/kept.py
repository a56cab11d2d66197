"""What earlier attempts (or the output before a retranscode) have left: read from the facts of kept files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mediamill.media.hls import Segment, init_name, playlist_name, segment_name

Facts = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Kept:
    """One quality, or the sound."""

    init: Facts | None = None
    segments: Mapping[int, Segment] = field(default_factory=dict)
    is_complete: bool = False
    can_seek: bool = True  # no segment says that its source must be read from the start


def find_kept(kept: Mapping[str, Facts], quality: str) -> Kept:
    """Segments without their init are of no use, and facts that make no sense are nothing."""
    init = kept.get(init_name(quality))
    if init is None:
        return Kept()
    segments: dict[int, Segment] = {}
    can_seek = True
    for name, facts in kept.items():
        index, seconds = facts.get("index"), facts.get("seconds")
        if not isinstance(index, int) or name != segment_name(quality, index):
            continue
        if isinstance(seconds, int | float) and seconds > 0:
            segments[index] = Segment(name, float(seconds), int(facts.get("bytes") or 0))
            can_seek = can_seek and facts.get("exact") is not False
    whole = bool(segments) and sorted(segments) == list(range(len(segments)))
    return Kept(init, segments, whole and playlist_name(quality) in kept, can_seek)
