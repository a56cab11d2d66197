"""From a decoded frame to the pictures of all qualities: made upright, of 8 bits and standard range once, then scaled
down step by step, each from the next larger one. Steps below the lowest quality that is still to be made are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from av.filter import Graph
from av.filter.context import FilterContext
from av.video.frame import VideoFrame
from av.video.reformatter import ColorRange, Colorspace, Interpolation, VideoReformatter

from mediamill.media.frames import check_size
from mediamill.processors.transcode.ladder import Rung
from mediamill.processors.transcode.source_facts import SourceFacts, is_rgb
from mediamill.processors.transcode.tone import tone_steps, write_table

FORMAT = "yuv420p"
SCALING = Interpolation.BICUBIC
TURNS = {90: ("clock",), 180: ("clock", "clock"), 270: ("cclock",)}
TABLE_FILE = "tone.cube"


class Chain:
    """Makes the pictures of every rung from one frame. `folder`: for the table that maps HDR, if there is HDR."""

    def __init__(self, facts: SourceFacts, rungs: Sequence[Rung], threads: int, folder: Path) -> None:
        self._facts, self._rungs, self._threads = facts, tuple(rungs), threads
        self._table = write_table(facts.tone, folder / TABLE_FILE) if facts.tone else None
        self._scalers = [VideoReformatter() for _ in rungs]
        self._graph: Graph | None = None
        self._shape: tuple[object, ...] = ()

    def pictures(self, frame: VideoFrame, wanted: Sequence[bool]) -> Iterator[tuple[int, VideoFrame]]:
        """The picture of each rung that is wanted, with the rung's number."""
        if not any(wanted):
            return
        lowest = max(number for number, is_wanted in enumerate(wanted) if is_wanted)
        picture = self._first(frame)
        for number, rung in enumerate(self._rungs[: lowest + 1]):
            if number:
                picture = self._scale(number, picture, rung)
            if wanted[number]:
                yield number, picture

    def _first(self, frame: VideoFrame) -> VideoFrame:
        check_size(frame.width, frame.height)
        if self._facts.rotation or self._facts.mirrored or self._facts.tone:
            return self._filter(frame)
        return self._scale(0, frame, self._rungs[0])

    def _scale(self, number: int, frame: VideoFrame, rung: Rung) -> VideoFrame:
        """The frame itself if there is nothing to do."""
        return self._scalers[number].reformat(
            frame,
            rung.width,
            rung.height,
            FORMAT,
            dst_colorspace=Colorspace.ITU709 if is_rgb(frame.format) else None,
            dst_color_range=ColorRange.MPEG,
            interpolation=SCALING,
            threads=1,
        )

    def _filter(self, frame: VideoFrame) -> VideoFrame:
        shape = (frame.width, frame.height, frame.format.name, frame.color_range, frame.colorspace)
        if shape != self._shape or self._graph is None:
            self._graph, self._shape = self._build(frame), shape
        frame.pts = None  # the timeline has the time already
        self._graph.push(frame)
        made = self._graph.pull()
        assert isinstance(made, VideoFrame)
        return made

    def _build(self, frame: VideoFrame) -> Graph:
        """Scaled before it is mapped and turned, as fewer pixels cost less."""
        graph, rung, facts = Graph(), self._rungs[0], self._facts
        graph.threads = self._threads
        width, height = rung.width, rung.height
        if facts.rotation in (90, 270):
            width, height = height, width
        nodes = [
            add_frames(graph, frame),
            graph.add("scale", w=str(width), h=str(height), flags="bicubic"),
        ]
        if facts.tone and self._table:
            nodes += [graph.add(name, **options) for name, options in tone_steps(self._table)]
        else:
            matrix = {"out_color_matrix": "bt709"} if is_rgb(frame.format) else {}
            nodes += [
                graph.add("scale", out_range="limited", **matrix),
                graph.add("format", pix_fmts=FORMAT),
            ]
        if facts.mirrored:
            nodes.append(graph.add("vflip"))
        nodes += [graph.add("transpose", dir=turn) for turn in TURNS.get(facts.rotation, ())]
        graph.link_nodes(*nodes, graph.add("buffersink")).configure()
        return graph


def add_frames(graph: Graph, frame: VideoFrame) -> FilterContext:
    """Where frames like this one go into a graph."""
    return graph.add(
        "buffer",
        video_size=f"{frame.width}x{frame.height}",
        pix_fmt=frame.format.name,
        time_base=str(frame.time_base or "1/1000"),
        colorspace=str(int(frame.colorspace)),
        range=str(int(frame.color_range)),
    )
