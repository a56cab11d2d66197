"""What a video says of itself, small and as JSON; and when it was taken."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from mediamill.processors.transcode.source_facts import SourceFacts

TIMES = ("com.apple.quicktime.creationdate", "creation_time")  # the first has the camera's time zone
FIRST_YEAR = 1971  # clocks that were never set begin in 1904 or 1970


def facts_of(facts: SourceFacts) -> dict[str, Any]:
    """Only what says something."""
    media, video, audio = facts.media, facts.media.video, facts.media.audio
    found = {
        "mime_type": media.mime_type,
        "container": media.container,
        "bit_rate": media.bit_rate,
        "codec": video.codec if video else None,
        "pixel_format": video.pixel_format if video else None,
        "rotation": facts.rotation or None,
        "mirrored": facts.mirrored or None,
        "hdr": facts.hdr or None,
        "interlaced": facts.interlaced or None,
        "audio_codec": audio.codec if audio else None,
        "audio_channels": audio.channels if audio else None,
        "audio_sample_rate": audio.sample_rate if audio else None,
        "language": audio.language if audio else None,
        "camera": _camera(media.tags),
        "tags": dict(media.tags) or None,
    }
    return {name: value for name, value in found.items() if value is not None}


def taken_at(tags: Mapping[str, str]) -> tuple[str | None, dict[str, str]]:
    """With a time zone, and whose that is; times without one are UTC, as containers have them."""
    for name in TIMES:
        try:
            moment = datetime.fromisoformat(tags.get(name, ""))
        except ValueError:
            continue
        if moment.year >= FIRST_YEAR:
            zone = "camera" if name == TIMES[0] and moment.tzinfo is not None else "utc"
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).isoformat(), {"taken_zone": zone}
    return None, {}


def _camera(tags: Mapping[str, str]) -> str | None:
    for prefix in ("com.apple.quicktime.", ""):
        words = [tags[prefix + name] for name in ("make", "model") if tags.get(prefix + name)]
        if words:
            return " ".join(words)
    return None
