"""Our ladder in a process of its own: `python -m bench.video.ours CLIP FOLDER`. Prints what the job itself took.

Finished files go to FOLDER/kept with their facts beside them. What is there already is given to the attempt, so the
same command goes on with what a killed one left.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mediamill.processors.contract import ProcessorInput
from mediamill.processors.transcode import attempt
from mediamill.processors.transcode.pictures import make_pictures
from mediamill.processors.transcode.processor import TranscodeProcessor

PRESET, SEGMENT_SECONDS = (
    "veryfast",
    4,
)  # here, because this process must import nothing but what a worker does
PAYLOAD = {"preset": PRESET, "segment_seconds": SEGMENT_SECONDS, "encoder": "libx264"}
FACTS = ".facts"


def read_kept(folder: Path) -> dict[str, Mapping[str, Any]]:
    """What earlier attempts kept in this folder."""
    if not folder.is_dir():
        return {}
    return {
        path.stem: {**json.loads(path.read_text()), "bytes": (folder / path.stem).stat().st_size}
        for path in sorted(folder.glob(f"*{FACTS}"))
    }


def run(clip: Path, folder: Path) -> Mapping[str, Any]:
    """One attempt; CPU seconds of all threads."""
    kept, scratch = folder / "kept", folder / "scratch"
    kept.mkdir(parents=True, exist_ok=True)
    scratch.mkdir(exist_ok=True)

    def keep(name: str, path: Path | str, facts: Mapping[str, Any] | None = None) -> None:
        (scratch / path).rename(kept / name)
        (scratch / f"{name}{FACTS}").write_text(json.dumps(dict(facts or {})))
        (scratch / f"{name}{FACTS}").rename(kept / f"{name}{FACTS}")

    given = ProcessorInput(
        PAYLOAD, "video/mp4", clip, scratch, None, 1, lambda *_, **__: None, read_kept(kept), keep
    )
    pictures = _timed_pictures()
    started = time.process_time()
    result = TranscodeProcessor((), 43_200).process(given).result
    spent = time.process_time() - started
    return {"job_cpu_seconds": spent, "pictures_cpu_seconds": sum(pictures), "result": result}


def _timed_pictures() -> list[float]:
    """Poster, thumbnail and sheets for seeking are no part of a ladder: what they take is told apart."""
    took = list[float]()

    def timed(*given: Any) -> list[str]:
        started = time.process_time()
        try:
            return make_pictures(*given)
        finally:
            took.append(time.process_time() - started)

    setattr(attempt, "make_pictures", timed)  # noqa: B010
    return took


if __name__ == "__main__":
    print(json.dumps(run(Path(sys.argv[1]), Path(sys.argv[2]))))
