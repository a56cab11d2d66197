"""The pictures of a video: poster, thumbnail, and sheets of little ones, with the track that shows them while seeking.

Keyframes are found by the index and by seeking, and decoded once each; nothing between them is, as long as one of them
makes a poster. The little pictures are `interval` seconds apart, or as far apart as the keyframes are.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import av
import cv2
import numpy as np
import pyvips
from av.video.frame import VideoFrame
from av.video.reformatter import Colorspace

from mediamill.media.errors import DamagedMediaError
from mediamill.media.frames import Footage, Pixels, sharpness_of, upright, upright_as
from mediamill.media.images import encode_jpeg
from mediamill.media.probe import MediaFacts
from mediamill.media.seek_track import Preview, write_seek_track
from mediamill.processors.transcode.tone import to_sdr, tone_of

POSTER_SIDE = 1280
THUMBNAIL_WIDTH = 320
TILE_WIDTH, TILE_HEIGHT = 160, 284  # no larger than either; 284 is for 9:16
COLUMNS = ROWS = 10  # of a sheet
MOST_TILES = 400
INTERVALS = (1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 1800, 3600)
MOST_MISSES = 20  # in a row; then the rest is no better
POSTER_FROM, POSTER_TO = 0.1, 0.2  # of the duration: behind titles, before the story is told
POSTER_TRIES = (0.15, 0.3, 0.5, 0.05, 0.75)
POSTER_QUALITY, TILE_QUALITY = 85, 70
DARK, LIGHT, FLAT = 28, 250, 12  # of 255: mean brightness, and how much it varies at least
TROUBLE = (av.FFmpegError, pyvips.Error, cv2.error, ValueError)


@dataclass(frozen=True, slots=True)
class Look:
    """What one frame is worth as a poster."""

    seconds: float
    sharpness: float
    is_good: bool  # neither black nor white nor one colour

    def score(self, duration: float) -> float:
        """Sharp, and near the place where posters are."""
        part = self.seconds / duration if duration > 0 else POSTER_FROM
        away = max(POSTER_FROM - part, part - POSTER_TO, 0.0)
        return math.log1p(self.sharpness) * (1 if self.is_good else 0.01) / (1 + 5 * away)


@dataclass(frozen=True, slots=True)
class Tile:
    """A little picture and when it is shown."""

    start_ms: int
    pixels: Pixels


def make_pictures(
    given_file: Path, folder: Path, facts: MediaFacts, warn: Callable[[str], None] = lambda _: None
) -> list[str]:
    """Write the pictures into the folder; names of those made, none for sound alone.

    What cannot be made is left out with a warning. Raises DamagedMediaError only if not one frame can be decoded.
    """
    if facts.video is None:
        return []
    with Footage(given_file, facts.mime_type) as footage:
        marks = sorted(footage.keyframe_times())
        duration = facts.duration_seconds or (marks[-1] + footage.frame_seconds if marks else 0.0)
        looks: list[Look] = []
        names: list[str] = []
        try:
            names += _make_sprites(footage, folder, duration, marks, looks)
        except TROUBLE as error:
            warn(f"there are no pictures for seeking: {error}")
        frame = _choose_poster(footage, duration, looks)
        try:
            names += _make_poster(frame, footage.pixel_shape, folder)
        except TROUBLE as error:
            warn(f"there is no poster: {error}")
    return names


def interval_for(duration_seconds: float) -> int:
    """Seconds from one little picture to the next."""
    return next((one for one in INTERVALS if duration_seconds / one <= MOST_TILES), INTERVALS[-1])


def seen(frame: VideoFrame, longest_side: int, pixel_shape: float) -> Pixels:
    """A frame as a person sees it on an ordinary screen."""
    tone = tone_of(frame.color_trc, frame.color_primaries)
    if tone is None:
        return upright(frame, longest_side, pixel_shape)
    signal = upright_as("rgb48le", frame, longest_side, pixel_shape, Colorspace.BT2020) / 65535
    return np.rint(to_sdr(signal, tone) * 255).astype(np.uint8)


def look_at(pixels: Pixels, seconds: float) -> Look:
    """How good a poster it would be."""
    gray = np.asarray(cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY), np.uint8)
    good = DARK < float(gray.mean()) < LIGHT and float(gray.std()) > FLAT
    return Look(seconds, sharpness_of(gray), good)


def _make_sprites(
    footage: Footage, folder: Path, duration: float, marks: Sequence[float], looks: list[Look]
) -> list[str]:
    """The sheets and their track. `looks` gets what was seen on the way."""
    names: list[str] = []
    previews: list[Preview] = []
    sheet: list[Tile] = []

    def finish(end_ms: int) -> None:
        name = f"sprite-{len(names):03d}.jpg"
        (folder / name).write_bytes(encode_jpeg(_join(sheet), TILE_QUALITY))
        previews.extend(_places(sheet, name, end_ms))
        names.append(name)
        sheet.clear()

    for tile in _tiles(footage, duration, marks, looks):
        if len(sheet) == COLUMNS * ROWS:
            finish(tile.start_ms)
        sheet.append(tile)
    if not sheet:
        return []
    finish(max(round(duration * 1000), sheet[-1].start_ms + 1))
    (folder / "seek.vtt").write_text(write_seek_track(previews), "ascii")
    return [*names, "seek.vtt"]


def _tiles(footage: Footage, duration: float, marks: Sequence[float], looks: list[Look]) -> Iterator[Tile]:
    """A picture for each interval that has a new one; the first starts at 0."""
    interval, misses, size = interval_for(duration), 0, None
    last_target = last_seen = -1.0
    for number in range(min(MOST_TILES, math.ceil(duration / interval))):
        target = _nearest_before(marks, (number + 0.5) * interval)
        if target == last_target:
            continue
        last_target, found = target, footage.keyframe_at(target)
        misses = misses + 1 if found is None else 0
        if misses >= MOST_MISSES:
            return
        if found is None or found[0] == last_seen:
            continue
        last_seen, pixels = found[0], seen(found[1], 2 * TILE_HEIGHT, footage.pixel_shape)
        size = size or _tile_size(pixels)
        start_ms = number * interval * 1000 if looks else 0
        looks.append(look_at(pixels, last_seen))
        yield Tile(start_ms, np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA), np.uint8))


def _nearest_before(marks: Sequence[float], seconds: float) -> float:
    """The last keyframe before a time; the time itself if there is no index."""
    return marks[max(0, bisect_right(marks, seconds) - 1)] if marks else seconds


def _tile_size(pixels: Pixels) -> tuple[int, int]:
    height, width = pixels.shape[:2]
    scale = min(TILE_WIDTH / width, TILE_HEIGHT / height)
    return max(1, round(width * scale)), max(1, round(height * scale))


def _join(tiles: Sequence[Tile]) -> Pixels:
    """The tiles in rows; a sheet that is not full is only as large as it must be."""
    height, width = tiles[0].pixels.shape[:2]
    columns = min(COLUMNS, len(tiles))
    sheet = np.zeros((height * math.ceil(len(tiles) / columns), width * columns, 3), np.uint8)
    for number, tile in enumerate(tiles):
        row, column = divmod(number, columns)
        sheet[row * height : (row + 1) * height, column * width : (column + 1) * width] = tile.pixels
    return sheet


def _places(tiles: Sequence[Tile], sheet: str, end_ms: int) -> Iterator[Preview]:
    height, width = tiles[0].pixels.shape[:2]
    ends = [*(tile.start_ms for tile in tiles[1:]), end_ms]
    for number, (tile, end) in enumerate(zip(tiles, ends, strict=True)):
        row, column = divmod(number, COLUMNS)
        yield Preview(tile.start_ms, end, sheet, column * width, row * height, width, height)


def _choose_poster(footage: Footage, duration: float, looks: Sequence[Look]) -> VideoFrame:
    """The best of the keyframes that were seen; if none is good, of a few other frames."""
    best = max(looks, key=lambda look: look.score(duration), default=None)
    if best is not None and best.is_good and (found := footage.keyframe_at(best.seconds)) is not None:
        return found[1]
    tries = [footage.frame_at(duration * part) for part in POSTER_TRIES]
    frames = [one for one in (*tries, footage.frame_at(0.0)) if one is not None]
    if not frames:
        raise DamagedMediaError("the video is damaged: not one picture of it can be decoded")
    scores = [look_at(seen(frame, 320, 1.0), at).score(duration) for at, frame in frames]
    return frames[int(np.argmax(scores))][1]


def _make_poster(frame: VideoFrame, pixel_shape: float, folder: Path) -> list[str]:
    pixels = seen(frame, POSTER_SIDE, pixel_shape)
    (folder / "poster.jpg").write_bytes(encode_jpeg(pixels, POSTER_QUALITY))
    small = pyvips.Image.new_from_array(pixels).thumbnail_image(
        THUMBNAIL_WIDTH, height=POSTER_SIDE, size="down"
    )
    (folder / "thumbnail.jpg").write_bytes(encode_jpeg(small.numpy(), POSTER_QUALITY))
    return ["poster.jpg", "thumbnail.jpg"]
