"""The same ladder by ffmpeg: one command that decodes once (several ways to scale), and one command per quality.

Rungs, preset, CRF, highest rates, buffer, keyframes and sound are those that our encoder uses, and so are the threads,
except where a way says otherwise. Ours looks for motion in fewer places than the preset does: `AS_OURS` does so, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from bench.video.clips import FPS
from bench.video.ours import PRESET, SEGMENT_SECONDS
from bench.video.programs import find_program
from mediamill.processors.transcode.encoders import BUFFER_SECONDS, LESS_QUALITY, LESS_SEARCH
from mediamill.processors.transcode.ladder import Rung

AAC = ("-c:a", "aac", "-b:a", "128k", "-ac", "2")
Commands = list[list[str]]


def _begin(clip: Path, threads: int | None) -> list[str]:
    decoder = () if threads is None else ("-threads", str(threads))
    return [find_program("ffmpeg"), "-v", "error", "-nostdin", "-y", *decoder, "-i", str(clip)]


def _encoder(rung: Rung, threads: int | None, number: int = 0, *, less: bool = False) -> list[str]:
    gop = str(SEGMENT_SECONDS * FPS)
    options = {
        "c": "libx264",
        "preset": PRESET,
        "crf": str(rung.crf),
        "maxrate": str(rung.max_rate),
        "bufsize": str(rung.max_rate * BUFFER_SECONDS),
        "g": gop,
        "keyint_min": gop,
        "sc_threshold": "0",
        "pix_fmt": "yuv420p",
        **({**LESS_SEARCH[PRESET], "crf": str(rung.crf + LESS_QUALITY)} if less else {}),
    }
    if threads is not None:
        options["threads"] = str(threads)
    return [word for name, value in options.items() for word in (f"-{name}:v:{number}", value)]


def _hls(folder: Path, streams: str) -> list[str]:
    return [
        *("-f", "hls", "-hls_time", str(SEGMENT_SECONDS), "-hls_playlist_type", "vod"),
        *("-hls_segment_type", "fmp4", "-hls_flags", "independent_segments"),
        *("-master_pl_name", "master.m3u8", "-var_stream_map", streams),
        *("-hls_segment_filename", f"{folder}/%v-%05d.m4s", f"{folder}/%v.m3u8"),
    ]


def _chained(rungs: Sequence[Rung], flags: str) -> str:
    """Each from the next larger one."""
    steps, last = [], "0:v"
    for number, rung in enumerate(rungs):
        scale = f"scale={rung.width}:{rung.height}{flags}," if number else ""
        is_last = number == len(rungs) - 1
        steps.append(
            f"[{last}]{scale}" + (f"null[o{number}]" if is_last else f"split=2[o{number}][n{number}]")
        )
        last = f"n{number}"
    return ";".join(steps)


def _split(rungs: Sequence[Rung], flags: str) -> str:
    """Each from the source."""
    names = "".join(f"[s{number}]" for number in range(len(rungs)))
    scales = [
        f"[s{number}]" + (f"scale={rung.width}:{rung.height}{flags}" if number else "null") + f"[o{number}]"
        for number, rung in enumerate(rungs)
    ]
    return ";".join([f"[0:v]split={len(rungs)}{names}", *scales])


def single(
    graph: Callable[[Sequence[Rung], str], str],
    flags: str = "",
    *,
    own_threads: bool = False,
    one_thread: bool = False,
    less_search: bool = False,
    filter_threads: int | None = 1,
) -> Callable[[Path, Path, Sequence[Rung], int], Commands]:
    """One command for all qualities."""

    def commands(clip: Path, folder: Path, rungs: Sequence[Rung], threads: int) -> Commands:
        chosen = None if own_threads else 1 if one_thread else threads
        filters = () if filter_threads is None else ("-filter_complex_threads", str(filter_threads))
        line = [*_begin(clip, chosen), *filters, "-filter_complex", graph(rungs, flags)]
        for number, rung in enumerate(rungs):
            line += ["-map", f"[o{number}]", *_encoder(rung, chosen, number, less=less_search)]
        streams = [f"v:{number},agroup:sound,name:{rung.name}" for number, rung in enumerate(rungs)]
        line += ["-map", "0:a:0", *AAC]
        return [[*line, *_hls(folder, " ".join([*streams, "a:0,agroup:sound,name:audio"]))]]

    return commands


def per_quality(clip: Path, folder: Path, rungs: Sequence[Rung], threads: int) -> Commands:
    """As many commands as qualities; the first one makes the sound, too."""
    lines = []
    for number, rung in enumerate(rungs):
        line = [*_begin(clip, threads), "-map", "0:v:0", *_encoder(rung, threads)]
        line += ["-vf", f"scale={rung.width}:{rung.height}", "-filter_threads", "1"] if number else []
        line += ["-an"] if number else ["-map", "0:a:0", *AAC]
        sound = "" if number else ",agroup:sound a:0,agroup:sound,name:audio"
        lines.append([*line, *_hls(folder, f"v:0,name:{rung.name}" + sound)])
    return lines


SINGLE = {
    "chained": single(_chained),
    "split": single(_split),
    "chained, bilinear": single(_chained, ":flags=bilinear"),
    "chained, its own threads": single(_chained, own_threads=True, filter_threads=None),
    "chained, one thread each": single(_chained, one_thread=True),
}
AS_OURS = {"chained, one thread each, our search": single(_chained, one_thread=True, less_search=True)}
PER_QUALITY = "one per quality"
