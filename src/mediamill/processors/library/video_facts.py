"""What a video says of itself, small and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mediamill.media.capture_time import read_container_time
from mediamill.processors.transcode.source_facts import SourceFacts


def facts_of(facts: SourceFacts) -> dict[str, Any]:
    """Only what says something."""
    media, video, audio = facts.media, facts.media.video, facts.media.audio
    taken = read_container_time(media.tags)
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
        **(taken.facts() if taken else {}),
        "tags": dict(media.tags) or None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _camera(tags: Mapping[str, str]) -> str | None:
    for prefix in ("com.apple.quicktime.", ""):
        words = [tags[prefix + name] for name in ("make", "model") if tags.get(prefix + name)]
        if words:
            return " ".join(words)
    return None
