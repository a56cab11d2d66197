"""HLS playlists as text: written by the rules of RFC 8216 and of Apple's authoring specification, read strictly.

What is read may come from a hostile worker: only the very lines that we write are taken, in our order and within
limits, and a name in a playlist is always a file of the same flat folder: never a path, never an address.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NoReturn

from mediamill.errors import InvalidError
from mediamill.media.seek_track import BadSeekTrackError, read_seek_track

MASTER = "master.m3u8"
AUDIO = "audio"
SEEK_TRACK = "seek.vtt"
VERSION = 7
STARTING_RATE = 2_000_000  # bits/s: Apple's rule for the variant that is listed first, and so tried first

MOST_SEGMENTS = 50_000  # 55 hours of 4 seconds
MOST_VARIANTS = 20
MOST_TEXT_BYTES = 4_000_000
MOST_FILE_BYTES = 512 * 1024 * 1024  # of one segment, picture or init
LONGEST_SEGMENT_SECONDS = 3600
MOST_FAULTS = 30  # told; one is enough to refuse

NAME = r"[a-z0-9][a-z0-9._-]{0,99}"
QUALITY = r"[0-9]{3,4}p|audio"
OUTPUT_NAME = re.compile(
    rf"master\.m3u8|(?:{QUALITY})(?:\.m3u8|-init\.mp4|-[0-9]{{5}}\.m4s)"
    r"|poster\.jpg|thumbnail\.jpg|sprite-[0-9]{3}\.jpg|seek\.vtt"
)
VARIANT_NAME = re.compile(rf"({QUALITY})\.m3u8")
LANGUAGE = r"[a-zA-Z]{2,8}(?:-[a-zA-Z0-9]{1,8}){0,3}"
CODEC = r"[a-z0-9]{4}(?:\.[A-Za-z0-9.]{1,30})?"

TARGET_LINE = re.compile(r"#EXT-X-TARGETDURATION:([0-9]{1,5})")
MAP_LINE = re.compile(rf'#EXT-X-MAP:URI="({NAME})"')
SEGMENT_LINE = re.compile(r"#EXTINF:([0-9]{1,5}\.[0-9]{6}),")
NAME_LINE = re.compile(rf"({NAME})")
MEDIA_LINE = re.compile(
    rf'#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="audio",NAME="Audio",(?:LANGUAGE="({LANGUAGE})",)?'
    r'DEFAULT=YES,AUTOSELECT=YES,CHANNELS="([0-9]{1,2})",URI="audio\.m3u8"'
)
STREAM_LINE = re.compile(
    rf'#EXT-X-STREAM-INF:BANDWIDTH=([0-9]{{1,11}}),AVERAGE-BANDWIDTH=([0-9]{{1,11}}),CODECS="({CODEC}(?:,{CODEC}){{0,2}})"'
    r"(?:,RESOLUTION=([0-9]{1,5})x([0-9]{1,5}),FRAME-RATE=([0-9]{1,4}\.[0-9]{3}),VIDEO-RANGE=SDR,CLOSED-CAPTIONS=NONE)?"
    r'(,AUDIO="audio")?'
)
HEAD = ("#EXTM3U", f"#EXT-X-VERSION:{VERSION}")


class BadPlaylistError(InvalidError):
    """The playlist is not one of ours."""

    code = "bad_playlist"


@dataclass(frozen=True, slots=True)
class Segment:
    """One file of a playlist. `bytes` is not in the text: it counts for the rates only."""

    name: str
    seconds: float
    bytes: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Playlist:
    """One quality, or the sound: its init file and its segments in order."""

    init: str
    segments: tuple[Segment, ...]
    target_seconds: int  # by the RFC the same in every playlist of an output


@dataclass(frozen=True, slots=True)
class Variant:
    """What a player can choose: a playlist, and what it takes to play it (with the sound, once that is added)."""

    playlist: str  # 720p.m3u8
    bandwidth: int  # bits/s: peak of a segment
    average_bandwidth: int
    codecs: str  # avc1.64001f,mp4a.40.2
    width: int | None = None  # of pictures; None: there is only sound
    height: int | None = None
    frame_rate: float | None = None


@dataclass(frozen=True, slots=True)
class AudioTrack:
    """The sound that all variants share, in audio.m3u8."""

    channels: int = 2
    language: str | None = None


@dataclass(frozen=True, slots=True)
class Master:
    """Everything a player is offered. Without `audio`: silent, or sound only."""

    variants: tuple[Variant, ...]
    audio: AudioTrack | None = None


def init_name(quality: str) -> str:
    """The file that every segment of a quality needs first."""
    return f"{quality}-init.mp4"


def segment_name(quality: str, index: int) -> str:
    """The file of a segment, counted from 0."""
    return f"{quality}-{index:05d}.m4s"


def playlist_name(quality: str) -> str:
    """The playlist of a quality, or of "audio"."""
    return f"{quality}.m3u8"


def target_for(segments: Sequence[Segment]) -> int:
    """Whole seconds that no segment exceeds."""
    return max(1, math.ceil(max((segment.seconds for segment in segments), default=0.0) - 1e-6))


def rates_of(segments: Sequence[Segment], target_seconds: int) -> tuple[int, int]:
    """Peak and average rate in bits/s.

    The peak is that of any run of segments that lasts between half and one and a half times the target, as the RFC
    defines it: a last segment of three frames does not count alone.
    """
    total = sum(segment.seconds for segment in segments)
    average = _rate(sum(segment.bytes for segment in segments), total)
    peak = max(_runs(segments, target_seconds), default=average)
    return max(peak, average), average


def _runs(segments: Sequence[Segment], target_seconds: int) -> Iterator[int]:
    for start in range(len(segments)):
        seconds, size = 0.0, 0
        for segment in segments[start:]:
            seconds, size = seconds + segment.seconds, size + segment.bytes
            if seconds > 1.5 * target_seconds:
                break
            if seconds >= 0.5 * target_seconds:
                yield _rate(size, seconds)


def _rate(size: int, seconds: float) -> int:
    return math.ceil(size * 8 / seconds) if seconds > 0 else size * 8


def build_master(videos: Sequence[Variant], sound: Variant | None, audio: AudioTrack | None = None) -> Master:
    """The variants with the sound's share in rate and codecs, in the order for players: a middle one first."""
    if sound is None or not videos:
        return Master(tuple(_in_order(videos or ([sound] if sound else []))))
    both = [
        replace(
            video,
            bandwidth=video.bandwidth + sound.bandwidth,
            average_bandwidth=video.average_bandwidth + sound.average_bandwidth,
            codecs=f"{video.codecs},{sound.codecs}",
        )
        for video in videos
    ]
    return Master(tuple(_in_order(both)), audio or AudioTrack())


def _in_order(variants: Sequence[Variant]) -> list[Variant]:
    falling = sorted(variants, key=lambda variant: -variant.bandwidth)
    if not falling:
        return []
    first = min(falling, key=lambda variant: abs(variant.average_bandwidth - STARTING_RATE))
    return [first, *(variant for variant in falling if variant is not first)]


def write_playlist(playlist: Playlist) -> str:
    """The text of a media playlist."""
    lines = [
        *HEAD,
        f"#EXT-X-TARGETDURATION:{playlist.target_seconds}",
        "#EXT-X-MEDIA-SEQUENCE:0",
        "#EXT-X-PLAYLIST-TYPE:VOD",
        "#EXT-X-INDEPENDENT-SEGMENTS",
        f'#EXT-X-MAP:URI="{playlist.init}"',
    ]
    for segment in playlist.segments:
        lines += [f"#EXTINF:{segment.seconds:.6f},", segment.name]
    return "\n".join([*lines, "#EXT-X-ENDLIST", ""])


def write_master(master: Master) -> str:
    """The text of the master playlist."""
    lines = [*HEAD, "#EXT-X-INDEPENDENT-SEGMENTS"]
    if master.audio is not None:
        lines.append(_media_line(master.audio))
    for variant in master.variants:
        lines += [_stream_line(variant, master.audio is not None), variant.playlist]
    return "\n".join([*lines, ""])


def _media_line(audio: AudioTrack) -> str:
    known = audio.language is not None and re.fullmatch(LANGUAGE, audio.language)
    language = f'LANGUAGE="{audio.language}",' if known else ""
    return (
        f'#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="audio",NAME="Audio",{language}DEFAULT=YES,AUTOSELECT=YES,'
        f'CHANNELS="{audio.channels}",URI="{playlist_name(AUDIO)}"'
    )


def _stream_line(variant: Variant, with_audio: bool) -> str:
    pictures = ""
    if variant.width is not None:
        size = f"{variant.width}x{variant.height}"
        rate = f"{variant.frame_rate or 0:.3f}"
        pictures = f",RESOLUTION={size},FRAME-RATE={rate},VIDEO-RANGE=SDR,CLOSED-CAPTIONS=NONE"
    return (
        f"#EXT-X-STREAM-INF:BANDWIDTH={variant.bandwidth},AVERAGE-BANDWIDTH={variant.average_bandwidth},"
        f'CODECS="{variant.codecs}"{pictures}' + (',AUDIO="audio"' if with_audio else "")
    )


class _Lines:
    """The lines of a text, taken one after the other; the first that is not as it must be is refused."""

    def __init__(self, text: str) -> None:
        if len(text) > MOST_TEXT_BYTES:
            raise BadPlaylistError(f"it has more than {MOST_TEXT_BYTES} characters")
        if not text.endswith("\n"):
            raise BadPlaylistError("it does not end with the end of a line")
        self._lines = text.split("\n")[:-1]
        self._next = 0

    def is_at_end(self) -> bool:
        return self._next >= len(self._lines)

    def fixed(self, *lines: str) -> None:
        for line in lines:
            if self.is_at_end() or self._lines[self._next] != line:
                self.refuse(line)
            self._next += 1

    def match(self, pattern: re.Pattern[str], what: str) -> re.Match[str]:
        return self.maybe(pattern) or self.refuse(what)

    def maybe(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = None if self.is_at_end() else pattern.fullmatch(self._lines[self._next])
        self._next += found is not None
        return found

    def refuse(self, expected: str) -> NoReturn:
        seen = "its end" if self.is_at_end() else repr(self._lines[self._next][:60])
        raise BadPlaylistError(f"line {self._next + 1}: {expected} expected, not {seen}")


def read_playlist(text: str) -> Playlist:
    """A media playlist as we write it; anything else is refused."""
    lines = _Lines(text)
    lines.fixed(*HEAD)
    target = int(lines.match(TARGET_LINE, "a target duration")[1])
    lines.fixed("#EXT-X-MEDIA-SEQUENCE:0", "#EXT-X-PLAYLIST-TYPE:VOD", "#EXT-X-INDEPENDENT-SEGMENTS")
    init = lines.match(MAP_LINE, "the name of an init file")[1]
    segments: list[Segment] = []
    while (found := lines.maybe(SEGMENT_LINE)) is not None:
        segments.append(Segment(lines.match(NAME_LINE, "the name of a segment")[1], float(found[1])))
        _check_segment(segments, target)
    lines.fixed("#EXT-X-ENDLIST")
    if not lines.is_at_end():
        lines.refuse("the end")
    if not segments:
        raise BadPlaylistError("it has no segments")
    return Playlist(init, tuple(segments), target)


def _check_segment(segments: Sequence[Segment], target: int) -> None:
    seconds = segments[-1].seconds
    if not 0 < seconds <= LONGEST_SEGMENT_SECONDS:
        raise BadPlaylistError(f"segment {len(segments)} lasts {seconds} seconds")
    if math.floor(seconds + 0.5) > target:  # rounded, as the RFC says
        raise BadPlaylistError(f"segment {len(segments)} is longer than the target of {target} seconds")
    if len(segments) > MOST_SEGMENTS:
        raise BadPlaylistError(f"it has more than {MOST_SEGMENTS} segments")


def read_master(text: str) -> Master:
    """A master playlist as we write it; anything else is refused."""
    lines = _Lines(text)
    lines.fixed(*HEAD, "#EXT-X-INDEPENDENT-SEGMENTS")
    media = lines.maybe(MEDIA_LINE)
    audio = None if media is None else AudioTrack(int(media[2]), media[1])
    variants: list[Variant] = []
    while not lines.is_at_end():
        found = lines.match(STREAM_LINE, "a variant")
        if (found[7] is not None) != (audio is not None):
            raise BadPlaylistError("a variant names a group of sound that is not there, or does not name it")
        variants.append(_variant(found, lines.match(VARIANT_NAME, "the name of a playlist")[0]))
        if len(variants) > MOST_VARIANTS:
            raise BadPlaylistError(f"it has more than {MOST_VARIANTS} variants")
    _check_variants(variants)
    return Master(tuple(variants), audio)


def _variant(found: re.Match[str], name: str) -> Variant:
    bandwidth, average = int(found[1]), int(found[2])
    if not 0 < average <= bandwidth:
        raise BadPlaylistError(f"{name}: the average bandwidth must be above 0 and not above the peak")
    if (found[4] is None) != (name == playlist_name(AUDIO)):
        raise BadPlaylistError(f"{name}: pictures have a size and a rate, sound has none")
    if found[4] is None:
        return Variant(name, bandwidth, average, found[3])
    if 0 in (width := int(found[4]), height := int(found[5])) or float(found[6]) <= 0:
        raise BadPlaylistError(f"{name}: neither size nor frame rate can be 0")
    return Variant(name, bandwidth, average, found[3], width, height, float(found[6]))


def _check_variants(variants: Sequence[Variant]) -> None:
    if not variants:
        raise BadPlaylistError("it has no variants")
    names = [variant.playlist for variant in variants]
    if len(set(names)) < len(names):
        raise BadPlaylistError("it lists a playlist twice")
    if playlist_name(AUDIO) in names and len(names) > 1:
        raise BadPlaylistError("sound is a variant of its own only where there is nothing else")


def check_output(files: Mapping[str, int], read: Callable[[str], str]) -> list[str]:
    """What is wrong with an output: files by name with their sizes, texts by `read`. Empty: it can be published.

    Segments of a quality that is not in the master (it failed half way) may be there. No other files may.
    """
    return list(itertools.islice(_faults(files, read), MOST_FAULTS))


def _faults(files: Mapping[str, int], read: Callable[[str], str]) -> Iterator[str]:
    yield from _faults_of_names(files)
    try:
        master = read_master(_text_of(MASTER, files, read))
        names = [variant.playlist for variant in master.variants]
    except BadPlaylistError as error:
        yield f"{MASTER}: {error.message}"
    else:
        for name in [*names, playlist_name(AUDIO)] if master.audio else names:
            yield from _faults_of_playlist(name, files, read)
    if SEEK_TRACK in files:
        yield from _faults_of_seek_track(files, read)


def _faults_of_names(files: Mapping[str, int]) -> Iterator[str]:
    for name, size in files.items():
        if OUTPUT_NAME.fullmatch(name) is None:
            yield f"a file named {name[:100]!r} does not belong to an output"
        elif not 0 < size <= MOST_FILE_BYTES:
            yield f"{name} is {'too large' if size > 0 else 'empty'}"


def _faults_of_playlist(name: str, files: Mapping[str, int], read: Callable[[str], str]) -> Iterator[str]:
    try:
        playlist = read_playlist(_text_of(name, files, read))
    except BadPlaylistError as error:
        yield f"{name}: {error.message}"
        return
    quality = name.removesuffix(".m3u8")
    right = [init_name(quality), *(segment_name(quality, index) for index in range(len(playlist.segments)))]
    for listed, due in zip([playlist.init, *(one.name for one in playlist.segments)], right, strict=True):
        if listed != due:
            yield f"{name} lists {listed} where {due} is due"
        elif listed not in files:
            yield f"{name} lists {listed}, which is missing"


def _faults_of_seek_track(files: Mapping[str, int], read: Callable[[str], str]) -> Iterator[str]:
    try:
        sheets = {preview.sheet for preview in read_seek_track(_text_of(SEEK_TRACK, files, read))}
    except (BadPlaylistError, BadSeekTrackError) as error:
        yield f"{SEEK_TRACK}: {error.message}"
    else:
        for sheet in sorted(sheets - files.keys()):
            yield f"{SEEK_TRACK} names {sheet}, which is missing"


def _text_of(name: str, files: Mapping[str, int], read: Callable[[str], str]) -> str:
    """The text of a file that must be there and small enough to be read at all."""
    if name not in files:
        raise BadPlaylistError("it is missing")
    if files[name] > MOST_TEXT_BYTES:
        raise BadPlaylistError(f"it has more than {MOST_TEXT_BYTES} bytes")
    try:
        return read(name)
    except (UnicodeError, FileNotFoundError) as error:
        raise BadPlaylistError("it is not there, or no text") from error
