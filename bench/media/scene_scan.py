"""Measure the scene scan beside its peers: each round runs each in turn, in a process of its own, on one clip.

python -m bench.media.scene_scan --rounds 5 [--peers-python PYTHON]

All decode every frame at full rate and hash it at 32 × 32. Ours also measures sharpness and finds the scenes, and
leaves out the smoothing of block edges; `ffmpeg_pipe_rough` is ffmpeg told to do the same, and compared with apart.
`scene_scan_vs_best`: our frames per CPU-second over the best peer's; 1 is as fast. `decode_only` and
`pyav_one_scaler` (our own trick without our work) show the floor; they are no peers. PySceneDetect brings another
OpenCV than ours, so peers may have an environment of their own: --peers-python.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np

from bench.media.scene_peers import PEERS, measure
from mediamill.media.frames import Footage
from mediamill.processors.video.scenes import Scene, SceneFinder

WIDTH, HEIGHT, FPS = 1280, 720, 30
SHOT_SECONDS = 5
MARGIN = 320
FLOORS = {"decode_only", "pyav_one_scaler"}
OURS = "mediamill"
ROUGH = "ffmpeg_pipe_rough"


def make_clip(path: Path, seconds: int = 60, *, crf: int = 23) -> None:
    """Textures under a moving camera with grain, a cut every five seconds; H.264, by default at about 5 Mbit/s."""
    random = np.random.default_rng(7)
    grain = random.integers(0, 24, (HEIGHT + 64, WIDTH + 64, 3), np.uint8)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=FPS, options={"preset": "veryfast", "crf": str(crf)})
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        stream.codec_context.gop_size = 2 * FPS
        for _ in range(seconds // SHOT_SECONDS):
            picture, (right, down) = make_texture(random), random.uniform(-0.9, 0.9, 2)
            for number in range(SHOT_SECONDS * FPS):
                x, y = (int(MARGIN / 2 + step * number) for step in (right, down))
                dx, dy = random.integers(0, 64, 2)
                view = picture[y : y + HEIGHT, x : x + WIDTH]
                image = cv2.add(view, grain[dy : dy + HEIGHT, dx : dx + WIDTH])
                container.mux(stream.encode(av.VideoFrame.from_ndarray(np.asarray(image, np.uint8), "rgb24")))
        container.mux(stream.encode(None))


def make_texture(random: np.random.Generator) -> Any:
    """Shapes of every size."""
    size = WIDTH + MARGIN, HEIGHT + MARGIN
    total = np.zeros((size[1], size[0], 3), np.float32)
    for octave in range(1, 9):
        grid = random.random((2**octave, 2**octave, 3)).astype(np.float32)
        total += cv2.resize(grid, size, interpolation=cv2.INTER_CUBIC) * 0.75**octave
    total -= total.min()
    return (total * (230 / total.max())).astype(np.uint8)


def scan_ours(clip: str) -> int:
    """What the video processor does."""
    finder, scenes, count = SceneFinder(), list[Scene](), 0
    with Footage(Path(clip), rough=True) as footage:
        for glance in footage.glances():
            scenes += finder.feed(glance)
            count += 1
    scenes += finder.finish()
    print(f"{len(scenes)} scenes", file=sys.stderr)
    return count


def run_once(name: str, clip: Path, peers_python: str) -> dict[str, float] | str:
    """One scan in a fresh process, or why there is none."""
    if name == OURS:
        command = [sys.executable, "-m", "bench.media.scene_scan", "--one", "--clip", str(clip)]
    else:
        command = [peers_python, str(Path(__file__).with_name("scene_peers.py")), name, str(clip)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["failed"])[-1]
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def compare(
    clip: Path, rounds: int, peers_python: str, asked: Sequence[str] = tuple(PEERS)
) -> dict[str, Any]:
    """Interleaved rounds; medians, and our speed over the best peer's."""
    runs: dict[str, list[dict[str, float]]] = {}
    missing: dict[str, str] = {}
    names = [OURS, *asked]
    for number in range(rounds):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            if name in missing:
                continue
            result = run_once(name, clip, peers_python)
            if isinstance(result, str):
                missing[name] = result
            else:
                runs.setdefault(name, []).append(result)
    frames_per_cpu_second = {
        name: round(statistics.median(run["frames"] / run["cpu_seconds"] for run in each), 1)
        for name, each in runs.items()
    }
    peers = {
        name: speed
        for name, speed in frames_per_cpu_second.items()
        if name in PEERS and name not in {*FLOORS, ROUGH}
    }
    best = max(peers, key=lambda name: peers[name], default=None)
    return {
        "frames_per_cpu_second": frames_per_cpu_second,
        "frames": {name: each[0]["frames"] for name, each in runs.items()},
        "rounds": rounds,
        "missing": missing,
        "best_peer": best,
        "scene_scan_vs_best": round(frames_per_cpu_second[OURS] / peers[best], 3) if best else None,
        "scene_scan_vs_rough_ffmpeg": round(frames_per_cpu_second[OURS] / frames_per_cpu_second[ROUGH], 3)
        if ROUGH in frames_per_cpu_second
        else None,
    }


def main() -> None:
    """Make the clip, or take one, and compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--clip", type=Path, help="a video to scan instead of the generated one")
    parser.add_argument("--peers-python", default=sys.executable)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measure(scan_ours, str(given.clip))))
        return
    with tempfile.TemporaryDirectory() as folder:
        clip = given.clip or Path(folder) / "clip.mp4"
        if given.clip is None:
            make_clip(clip)
        print(json.dumps(compare(clip, given.rounds, given.peers_python), indent=1))


if __name__ == "__main__":
    main()
