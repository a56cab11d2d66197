"""Measure conversations: text behind slow media, a burst over many bots, a noisy bot, memory of what waits.

python -m bench.conversations
python -m bench.conversations --quick
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.conversations.ground import open_ground
from bench.conversations.phases import measure_burst, measure_delay, measure_noisy, measure_waiting
from bench.machine import describe_machine

RESULTS = Path(__file__).parent.parent / "results"


@dataclass(frozen=True)
class Sizes:
    """How much of everything."""

    texts: int = 500
    bots: int = 50
    each: int = 20
    noise: int = 1_000
    waiting: tuple[int, int] = (1_000, 10_000)


QUICK = Sizes(texts=50, bots=10, each=4, noise=100, waiting=(100, 500))


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.conversations", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--quick", action="store_true", help="a small run, to see that everything works")
    options = parser.parse_args()
    machine = describe_machine()
    print(f"load before the run: {machine['load_before']} on {machine['cores']} cores", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="mediamill-bench-"))
    try:
        figures = asyncio.run(measure(folder, QUICK if options.quick else Sizes()))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    told = {"date": datetime.now(UTC).date().isoformat(), "machine": machine, **figures}
    print(json.dumps(figures, indent=2))
    name = "conversations-quick.json" if options.quick else "conversations.json"
    (RESULTS / name).write_text(json.dumps(told, indent=2) + "\n")
    return 0


async def measure(folder: Path, sizes: Sizes) -> dict[str, Any]:
    """All of it."""
    async with open_ground(folder, audio_seconds=0.05) as ground:
        return {
            "delay": await measure_delay(ground, sizes.texts),
            "burst_small_files": await measure_burst(ground, sizes.bots, sizes.each, 10_000),
            "burst_large_files": await measure_burst(ground, sizes.bots, sizes.each, 1_000_000),
            "noisy": await measure_noisy(ground, sizes.bots - 1, 2, sizes.noise),
            "waiting": await measure_waiting(ground, list(sizes.waiting)),
        }


if __name__ == "__main__":
    sys.exit(main())
