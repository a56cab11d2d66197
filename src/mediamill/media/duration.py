"""How long a file plays. What it claims is compared with where its last packets are, at the cost of one seek."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from av.audio.stream import AudioStream
    from av.container import InputContainer
    from av.video.stream import VideoStream

MICROSECONDS = 1_000_000
TAIL_SECONDS = 3.0
MOST_PACKETS = 1000
# These have no index: a seek reads all that comes before. In a large file their claim stands, if it can be true.
SLOW_TO_SEEK = {"mp3", "aac", "amr"}
LARGE_BYTES = 16 * 1024 * 1024
LEAST_BITS_PER_SECOND = 4000
LONGEST_SECONDS = 10 * 365 * 86400.0


def find_duration(
    container: InputContainer, stream: VideoStream | AudioStream | None, size: int
) -> float | None:
    """Seconds, or None. The claim is believed as far as the packets bear it out."""
    if stream is None:
        return None
    claimed = _claimed(container, stream)
    if container.format.name in SLOW_TO_SEEK and size > LARGE_BYTES:
        return claimed if claimed and claimed * LEAST_BITS_PER_SECOND < size * 8 else None
    checked = _by_index(container, stream, size)
    if checked is None:
        checked, is_end = _by_tail(container, stream, claimed or 0.0)
        if not is_end:  # it goes on, nobody knows how far
            return max(claimed, checked) if claimed and checked else None
    if claimed is not None and abs(claimed - checked) <= max(1.0, 0.05 * checked):
        return round(claimed, 3)
    return round(checked, 3) if 0 < checked < LONGEST_SECONDS else None


def _claimed(container: InputContainer, stream: VideoStream | AudioStream) -> float | None:
    seconds = 0.0
    if container.duration:
        seconds = container.duration / MICROSECONDS
    elif stream.duration and stream.time_base:
        seconds = float(stream.duration * stream.time_base)
    return seconds if 0 < seconds < LONGEST_SECONDS else None


def _by_index(container: InputContainer, stream: VideoStream | AudioStream, size: int) -> float | None:
    """MP4 lists every sample: the last one that is really inside the file ends it."""
    entries = stream.index_entries
    if not container.format.name.startswith("mov") or len(entries) < 2 or not stream.time_base:
        return None
    readable = bisect_left(
        range(len(entries)), True, key=lambda at: entries[at].pos + entries[at].size > size
    )
    if readable < 2:
        return None
    first, before, last = entries[0], entries[readable - 2], entries[readable - 1]
    ticks = last.timestamp - first.timestamp + (last.timestamp - before.timestamp)
    return float(ticks * stream.time_base)


def _by_tail(
    container: InputContainer, stream: VideoStream | AudioStream, claimed: float
) -> tuple[float, bool]:
    """The end of the last packet behind the claimed end, or of all, and whether the file ended there."""
    for start in (max(0.0, claimed - TAIL_SECONDS), 0.0):
        if not _seek(container, start):
            continue
        end, is_end = _read_on(container, stream)
        if end > 0:
            return end, is_end
    return 0.0, False


def _seek(container: InputContainer, seconds: float) -> bool:
    import av

    try:
        container.seek(int(seconds * MICROSECONDS) + max(0, container.start_time or 0))
    except (av.FFmpegError, OverflowError):
        return False
    return True


def _read_on(container: InputContainer, stream: VideoStream | AudioStream) -> tuple[float, bool]:
    import av

    end, base = 0.0, float(stream.time_base or 0)
    start = float((stream.start_time or 0) * base)
    try:
        for count, packet in enumerate(container.demux(stream)):
            if packet.pts is not None:
                end = max(end, (packet.pts + (packet.duration or 0)) * base - start)
            if count >= MOST_PACKETS:
                return end, False
    except (av.FFmpegError, ValueError):
        pass  # torn: what came before is all there is
    return end, True
