"""The playlists of the qualities that are done, from what is known of their segments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from mediamill.media.hls import (
    AudioTrack,
    Playlist,
    Variant,
    build_master,
    init_name,
    playlist_name,
    rates_of,
    write_master,
    write_playlist,
)
from mediamill.processors.transcode.quality import Quality
from mediamill.processors.transcode.sound_source import CHANNELS

LEAST_RATE = 0.001


def target_seconds(segment_seconds: Fraction) -> int:
    """The same for all playlists: borders move by less than half a second, which rounds to this."""
    return max(1, math.floor(segment_seconds + Fraction(1, 2)))


def playlist_text(quality: Quality, segment_seconds: Fraction) -> str:
    """The playlist of one quality, or of the sound."""
    return write_playlist(
        Playlist(init_name(quality.name), quality.in_order(), target_seconds(segment_seconds))
    )


def master_text(
    videos: Sequence[Quality], sound: Quality | None, segment_seconds: Fraction, language: str | None
) -> str:
    """The master playlist."""
    target = target_seconds(segment_seconds)
    heard = None if sound is None else _variant(sound, target)
    seen = [_variant(quality, target) for quality in videos]
    return write_master(build_master(seen, heard, AudioTrack(CHANNELS, language) if heard else None))


def _variant(quality: Quality, target: int) -> Variant:
    peak, average = rates_of(quality.in_order(), target)
    return Variant(
        playlist_name(quality.name),
        peak,
        average,
        quality.codecs,
        quality.width,
        quality.height,
        None if quality.width is None else max(LEAST_RATE, quality.frame_rate or 0),
    )
