"""Fields of old cameras and television woven into whole pictures, one for each frame, at the frame's time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

import av
from av.filter import Graph
from av.video.frame import VideoFrame

from mediamill.processors.transcode.chain import add_frames
from mediamill.processors.transcode.timeline import Shown


def deinterlace(pictures: Iterable[Shown[VideoFrame]]) -> Iterator[Shown[VideoFrame]]:
    """Each picture needs its neighbours, so they come out one later than they went in."""
    graph: Graph | None = None
    waiting: deque[Shown[VideoFrame]] = deque()
    shape: tuple[object, ...] = ()
    for shown in pictures:
        frame = shown.picture
        here = (frame.width, frame.height, frame.format.name)
        if graph is None or here != shape:
            yield from _finish(graph, waiting)
            graph, shape = _build(frame), here
        waiting.append(shown)
        frame.pts = shown.ticks
        graph.push(frame)
        yield from _pull(graph, waiting)
    yield from _finish(graph, waiting)


def _build(frame: VideoFrame) -> Graph:
    graph = Graph()
    weave = graph.add("bwdif", mode="send_frame", deint="interlaced")
    graph.link_nodes(add_frames(graph, frame), weave, graph.add("buffersink")).configure()
    return graph


def _finish(graph: Graph | None, waiting: deque[Shown[VideoFrame]]) -> Iterator[Shown[VideoFrame]]:
    if graph is not None:
        graph.push(None)
        yield from _pull(graph, waiting)
    waiting.clear()


def _pull(graph: Graph, waiting: deque[Shown[VideoFrame]]) -> Iterator[Shown[VideoFrame]]:
    while waiting:
        try:
            made = graph.pull()
        except (av.BlockingIOError, av.EOFError):
            return
        assert isinstance(made, VideoFrame)
        shown = waiting.popleft()
        yield Shown(shown.ticks, shown.duration, made)
