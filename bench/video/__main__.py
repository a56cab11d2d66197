"""Measure videos: the ladder beside ffmpeg, in the sandbox, killed and resumed; what checkpoints and uploads cost.

python -m bench.video --rounds 3
python -m bench.video --quick --parts ladders,upload
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from bench.frame import RESULTS, Found, head_of, look_at_machine, measure_parts, names_from, tell
from bench.video.checkpoints import measure_checkpoints
from bench.video.clips import CLIPS
from bench.video.ladders import OURS, compare_ladders, run_way, thread_count
from bench.video.programs import run_program
from bench.video.report import demands_of, print_report
from bench.video.resuming import measure_resuming
from bench.video.sandboxed import measure_sandboxed
from bench.video.uploads import measure_upload


@dataclass(frozen=True)
class Sizes:
    """How much of everything."""

    film_seconds: int = 20
    patterns_seconds: int = 12
    files: int = 200
    upload_bytes: int = 1 << 30
    upload_rounds: int = 6


QUICK = Sizes(film_seconds=8, patterns_seconds=4, files=40, upload_bytes=128 << 20, upload_rounds=2)


@dataclass(frozen=True)
class Ground:
    """What the parts share: a folder, and clips that are made when they are first wanted."""

    folder: Path
    rounds: int
    sizes: Sizes

    def clip(self, name: str, seconds: int | None = None) -> Path:
        """One of the clips."""
        usual = {"film": self.sizes.film_seconds, "patterns": self.sizes.patterns_seconds}
        length = seconds or usual[name]
        path = self.folder / "clips" / f"{name}-{length}.mp4"
        path.parent.mkdir(exist_ok=True)
        return path if path.exists() else CLIPS[name](path, length)

    def room(self, name: str) -> Path:
        """A folder of its own for a part."""
        path = self.folder / name
        path.mkdir()
        return path


def measure_ladders(ground: Ground) -> Found:
    """Beside ffmpeg, for each sort of content."""
    room = ground.room("ladders")
    return {name: compare_ladders(ground.clip(name), room / name, ground.rounds, tell) for name in CLIPS}


def measure_in_sandbox(ground: Ground) -> Found:
    """No peers: what a worker's child adds."""
    clips = ground.clip("film"), ground.clip("film", 2)
    return asyncio.run(measure_sandboxed(*clips, ground.room("sandboxed")))


def measure_resumed(ground: Ground) -> Found:
    """No peers: ffmpeg has no checkpoints."""
    seconds = ground.sizes.film_seconds
    told = measure_resuming(ground.clip("film"), ground.room("resuming"), seconds)
    return {"seconds": seconds, **told}


def measure_kept(ground: Ground) -> Found:
    """No peers: with the segments of a real ladder."""
    room = ground.room("checkpoints")
    run = run_way(OURS, ground.clip("film"), room / "ladder")
    segments = sorted((room / "ladder" / "kept").glob("*.m4s"))
    told = asyncio.run(measure_checkpoints(segments, room, ground.sizes.files))
    cost = (told["kept"]["cpu_ms"] + told["kept"]["database_cpu_ms"] - told["moved"]["cpu_ms"]) / 1000
    share = cost * len(segments) / run["cpu_seconds"]
    return {**told, "segments_of_the_ladder": len(segments), "share_of_the_ladders_cpu": round(share, 4)}


def measure_uploads(ground: Ground) -> Found:
    """Beside a plain copy and a bare socket."""
    return measure_upload(ground.room("upload"), ground.sizes.upload_bytes, ground.sizes.upload_rounds)


PARTS: dict[str, Callable[[Ground], Found]] = {
    "ladders": measure_ladders,
    "sandboxed": measure_in_sandbox,
    "resuming": measure_resumed,
    "checkpoints": measure_kept,
    "upload": measure_uploads,
}


def main() -> int:
    """Measure, print, write; 1 if a demand was not met or a part could not be measured."""
    options = _parse(sys.argv[1:])
    machine = look_at_machine()
    found, errors = _measure_all(options.parts, options.rounds, QUICK if options.quick else Sizes())
    demands = demands_of(found)
    results = {
        **head_of("bench.video", machine),
        "rounds": options.rounds,
        "threads": thread_count(),
        "versions": {"av": version("av"), "ffmpeg": run_program("ffmpeg", "-version").split()[2]},
        **found,
        "errors": errors,
        "demands": [demand.told() for demand in demands],
    }
    options.out.write_text(json.dumps(results, indent=2) + "\n")
    print_report(found)
    return int(bool(errors) or not all(demand.is_met for demand in demands))


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.video", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=None, help="3, or 1 of a quick run")
    parser.add_argument("--parts", type=names_from(PARTS), default=list(PARTS), help=",".join(PARTS))
    parser.add_argument("--quick", action="store_true", help="a small run, to see that everything works")
    parser.add_argument("--out", type=Path, default=None, help="results file")
    options = parser.parse_args(arguments)
    options.rounds = options.rounds or (1 if options.quick else 3)
    # neither a quick run nor a part of one must pass for the real figures
    whole = not options.quick and options.parts == list(PARTS)
    options.out = options.out or RESULTS / ("video.json" if whole else "video-quick.json")
    return options


def _measure_all(parts: list[str], rounds: int, sizes: Sizes) -> tuple[Found, dict[str, str]]:
    with tempfile.TemporaryDirectory(prefix="bench-video-") as folder:
        ground = Ground(Path(folder), rounds, sizes)
        return measure_parts(parts, lambda name: PARTS[name](ground))


if __name__ == "__main__":
    sys.exit(main())
