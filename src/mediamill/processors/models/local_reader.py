"""Text in images by PP-OCR, from the files that the package rapidocr carries.

Very tall images (long screenshots) are read in overlapping pieces; else they would be shrunk until nothing is legible.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mediamill.processors.models.catalogue import find_model
from mediamill.processors.models.contract import Pixels, TextLine
from mediamill.processors.models.installed import model_folder
from mediamill.processors.models.sessions import open_session
from mediamill.processors.reading_order import Piece, order_blocks

if TYPE_CHECKING:
    from mediamill.settings import Settings

NAME = "pp-ocr-v6-small"
MODEL_LIST = "default_models.yaml"
LEAST_SCORE = 0.8
LEAST_CHARACTERS = 2  # letters or digits; less than that is mostly a pattern taken for text
LARGEST_SIDE = 2000
MOST_PIXELS = 2_500_000  # a page at 150 dots per inch; the detection takes about 250 bytes for each
LINES_AT_ONCE = 1  # more cost the same time, and each the memory of the longest
TALL = 2.5  # height to width from which an image is read in pieces
MOST_PIECES = 12
LEAST_SIDE = 32
SLENDER = 4.0  # height to width of a piece to which narrower ones are padded
OVERLAP = 0.1  # of a piece's height
ENLARGED, PLAIN = 736, 320  # shorter side to which text is looked for; smaller images are enlarged to it


class LocalReader:
    """The models are loaded here, once. `quick`: images are not enlarged to find small print, for a fifth of the cost
    where there is no text."""

    network = False

    def __init__(self, settings: Settings, *, quick: bool = False) -> None:
        model = find_model(NAME)
        folder = model_folder(NAME)
        recognition, detection = (folder / file.name for file in model.files)
        self.model = model.id
        side = PLAIN if quick else ENLARGED
        self._engine = _open_engine(detection, recognition, settings.processor_threads, side)

    def read(self, pixels: Pixels) -> list[TextLine]:
        """Lines in reading order, only those that the model is sure of."""
        lines: list[TextLine] = []
        for piece, top, first, last in cut_pieces(pixels):
            for line in self._read_piece(piece):
                left, upper, right, lower = line.box
                moved = replace(line, box=(left, upper + top, right, lower + top))
                # Two pieces see the lines of their overlap, at slightly different heights: the first one counts.
                if first <= _middle(moved) < last and not any(_covers(other, moved) for other in lines):
                    lines.append(moved)
        return in_reading_order(lines)

    def _read_piece(self, piece: Pixels) -> list[TextLine]:
        small, scale = _shrunk(_padded(piece))
        found = self._engine(np.ascontiguousarray(small[:, :, ::-1]))
        if found.boxes is None or found.txts is None or found.scores is None:
            return []
        every = zip(found.txts, found.scores, found.boxes, strict=True)
        lines = [TextLine(text.strip(), float(score), _bounds(box, scale)) for text, score, box in every]
        return [line for line in lines if is_sure(line)]


def _open_engine(detection: Path, recognition: Path, threads: int, least_side: int) -> Any:
    """The engine with sessions of ours, so that it looks for no other files and its threads do not spin."""
    logging.getLogger("RapidOCR").addFilter(lambda record: record.levelno >= logging.ERROR)
    from omegaconf import flag_override

    with _plain_model_list():
        from rapidocr import RapidOCR

    engine = RapidOCR(
        params={
            "Global.use_cls": False,  # the classifier of directions garbles long lines
            "Global.log_level": "error",
            "Global.max_side_len": LARGEST_SIDE,
            "Det.limit_side_len": least_side,
            "Rec.rec_batch_num": LINES_AT_ONCE,
        }
    )
    for part, path in ((engine.cfg.Det, detection), (engine.cfg.Rec, recognition)):
        with flag_override(part, "allow_objects", True):
            part.session = open_session(path, threads, keeps_memory=False)
    return engine


@contextmanager
def _plain_model_list() -> Iterator[None]:
    """The package reads its list of all models twice when it is imported, as configurations, which takes a quarter of a
    second. It is for models that it would fetch, and we give it ours: read once and as plain data it does as well.
    """
    import yaml
    from omegaconf import OmegaConf

    usual = OmegaConf.load

    @cache
    def read(path: Path) -> Any:
        return yaml.load(path.read_text("utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506

    def load(file: Any, **more: Any) -> Any:
        if isinstance(file, Path) and file.name == MODEL_LIST:
            return read(file)
        return usual(file, **more)

    OmegaConf.load = staticmethod(load)  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        OmegaConf.load = staticmethod(usual)  # type: ignore[method-assign]


def is_sure(line: TextLine) -> bool:
    """Is this text at all?"""
    return line.score >= LEAST_SCORE and sum(map(str.isalnum, line.text)) >= LEAST_CHARACTERS


def cut_pieces(pixels: Pixels) -> Iterator[tuple[Pixels, int, float, float]]:
    """Pieces from top to bottom: pixels, where it starts, and from where to where its lines are whole."""
    height, width = pixels.shape[:2]
    if height <= TALL * width or height <= LARGEST_SIDE / 2:
        yield pixels, 0, -1, height + 1
        return
    step = max(2 * width, LARGEST_SIDE // 2, -(-height // MOST_PIECES))
    margin = int(step * OVERLAP)
    for start in range(0, height, step):
        top, bottom = max(0, start - margin), min(height, start + step + margin)
        first = start - margin / 2 if start else -1
        last = start + step + margin / 2 if bottom < height else height + 1
        yield pixels[top:bottom], top, first, last
        if bottom == height:
            return


def _middle(line: TextLine) -> float:
    return (line.box[1] + line.box[3]) / 2


def _covers(other: TextLine, line: TextLine) -> bool:
    """Is the middle of the line inside the other?"""
    across = (line.box[0] + line.box[2]) / 2
    return other.box[1] <= _middle(line) <= other.box[3] and other.box[0] <= across <= other.box[2]


def _padded(piece: Pixels) -> Pixels:
    """A piece that is not too slender: the engine would blow it up until its short side is long enough."""
    height, width = piece.shape[:2]
    below = max(0, LEAST_SIDE - height, int(width / SLENDER) - height)
    beside = max(0, LEAST_SIDE - width, int(height / SLENDER) - width)
    return np.pad(piece, ((0, below), (0, beside), (0, 0)), mode="edge") if below or beside else piece


def _shrunk(piece: Pixels) -> tuple[Pixels, float]:
    """Pixels that the detection has memory for, and how many of the given ones each stands for."""
    import cv2

    height, width = piece.shape[:2]
    scale = max(1.0, (height * width / MOST_PIXELS) ** 0.5)
    if scale == 1.0:
        return piece, scale
    size = (max(1, int(width / scale)), max(1, int(height / scale)))
    return np.asarray(cv2.resize(piece, size, interpolation=cv2.INTER_AREA), dtype=np.uint8), scale


def _bounds(box: Any, scale: float) -> tuple[float, float, float, float]:
    corners = np.asarray(box, dtype=np.float64) * scale
    left, top = corners.min(axis=0)
    right, bottom = corners.max(axis=0)
    return float(left), float(top), float(right), float(bottom)


def in_reading_order(lines: list[TextLine]) -> list[TextLine]:
    """Column by column where there are columns of prose, else row by row; each row from the left."""
    found = {Piece(line.text, *line.box): line for line in lines}
    return [found[piece] for rows in order_blocks(list(found)) for row in rows for piece in row]
