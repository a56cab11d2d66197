"""The clips that are encoded: generated, 1080p, H.264 with AAC sound, the same bytes of pictures in every run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import av
import cv2
import numpy as np
from numpy.typing import NDArray

from bench.video.programs import run_program

Plane = NDArray[np.uint8]

WIDTH, HEIGHT, FPS = 1920, 1080, 30
RATE = 48_000
SCENE_SECONDS = 2.5  # cuts fall into segments and on their borders
MARGIN = 480  # how far a scene can be walked over
GRAIN = 3.0  # standard deviation of the film's noise, of 255
BLOCKS = 6  # things that move on their own
SOURCE = {"crf": "20", "preset": "veryfast", "g": "60", "maxrate": "20M", "bufsize": "20M"}  # as phones do


def make_film(path: Path, seconds: int) -> Path:
    """Walks over detailed ground, with things that move across it, grain, and a cut every few seconds."""
    with av.open(str(path), "w", format="mp4") as out:
        pictures = out.add_stream("libx264", rate=FPS, options=SOURCE)
        pictures.width, pictures.height, pictures.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        sound = out.add_stream("aac", rate=RATE, layout="stereo")
        for number, picture in enumerate(_film(seconds)):
            frame = av.VideoFrame.from_ndarray(picture, format="yuv420p")
            frame.pts = number
            out.mux(pictures.encode(frame))
        out.mux(pictures.encode(None))
        for start in range(0, seconds * RATE, 1024):
            samples = av.AudioFrame.from_ndarray(_tones(start), "fltp", "stereo")
            samples.sample_rate, samples.pts = RATE, start
            out.mux(sound.encode(samples))
        out.mux(sound.encode(None))
    return path


def make_patterns(path: Path, seconds: int) -> Path:
    """What screens show: hard edges, flat colours, digits that count, and a slow zoom into a fractal."""
    half = f"{seconds / 2:g}"
    size = f"size={WIDTH}x{HEIGHT}:rate={FPS}"
    graph = "[0:v]setsar=1[a];[1:v]scale=1920:1080,setsar=1[b];[a][b]concat=n=2:v=1,format=yuv420p[v]"
    run_program(
        "ffmpeg",
        *("-f", "lavfi", "-t", half, "-i", f"testsrc2={size}"),
        *("-f", "lavfi", "-t", half, "-i", f"mandelbrot=size=960x540:rate={FPS}:end_pts=400"),
        *("-f", "lavfi", "-t", str(seconds), "-i", f"sine=frequency=330:beep_factor=4:sample_rate={RATE}"),
        *("-filter_complex", graph, "-map", "[v]", "-map", "2:a", "-c:v", "libx264"),
        *(word for name, value in SOURCE.items() for word in (f"-{name}", value)),
        *("-c:a", "aac", "-ac", "2", str(path)),
    )
    return path


CLIPS: dict[str, Callable[[Path, int], Path]] = {"film": make_film, "patterns": make_patterns}


def _film(seconds: int) -> Iterator[Plane]:
    """Planes of 4:2:0, one under the other."""
    random = np.random.default_rng(7)
    grain = [_noise(random) for _ in range(8)]
    scene_frames = round(SCENE_SECONDS * FPS)
    ground, blocks, walk = _scene(random)
    for number in range(seconds * FPS):
        at = number % scene_frames
        if number and at == 0:
            ground, blocks, walk = _scene(random)
        x, y = (MARGIN / 2 + walk * at).astype(int).clip(0, MARGIN)
        x, y = int(x) & ~1, int(y) & ~1
        luma = ground[0][y : y + HEIGHT, x : x + WIDTH].copy()
        for place, speed, block in blocks:
            left, top = (place + speed * at).astype(int) % (WIDTH - 260, HEIGHT - 260)
            luma[top : top + 240, left : left + 240] = block
        noisy = np.roll(grain[int(random.integers(8))], int(random.integers(1, 1000)), axis=1)
        luma = (luma.astype(np.int16) + noisy).clip(0, 255).astype(np.uint8)
        chroma = [part[y // 2 : y // 2 + HEIGHT // 2, x // 2 : x // 2 + WIDTH // 2] for part in ground[1:]]
        yield np.concatenate([luma, *(part.reshape(-1, WIDTH) for part in chroma)])


def _scene(
    random: np.random.Generator,
) -> tuple[list[Plane], list[tuple[NDArray[np.float64], NDArray[np.float64], Plane]], NDArray[np.float64]]:
    """Luma and chroma of the ground, the things on it with place and speed, and the camera's speed."""
    height, width = HEIGHT + MARGIN, WIDTH + MARGIN
    ground = [_texture(random, width, height, 20, 230)]
    ground += [_texture(random, width // 2, height // 2, 100, 156) for _ in range(2)]
    blocks = [
        (
            random.uniform((0, 0), (WIDTH - 260, HEIGHT - 260)),
            random.uniform(-6, 6, 2),
            _texture(random, 240, 240, 10, 245),
        )
        for _ in range(BLOCKS)
    ]
    return ground, blocks, random.uniform(-3, 3, 2)


def _texture(random: np.random.Generator, width: int, height: int, low: int, high: int) -> Plane:
    """Detail of all sizes, as nature has it: the finer, the fainter."""
    total = np.zeros((height, width), np.float32)
    for octave in range(2, 10):
        grid = random.random((2**octave, 2**octave)).astype(np.float32)
        total += cv2.resize(grid, (width, height), interpolation=cv2.INTER_CUBIC) * np.float32(0.65**octave)
    total -= total.min()
    return np.asarray(low + total * ((high - low) / total.max()), np.uint8)


def _noise(random: np.random.Generator) -> NDArray[np.int16]:
    return random.normal(0, GRAIN, (HEIGHT, WIDTH)).round().astype(np.int16)


def _tones(start: int) -> NDArray[np.float32]:
    at = np.arange(start, start + 1024) / RATE
    left, right = (np.sin(2 * np.pi * pitch * at) * (0.1 + 0.05 * np.sin(at)) for pitch in (220.0, 331.0))
    return np.stack([left, right]).astype(np.float32)
