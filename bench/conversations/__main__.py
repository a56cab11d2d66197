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
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.conversations.ground import open_ground
from bench.conversations.phases import measure_burst, measure_delay, measure_noisy, measure_waiting
from bench.machine import describe_machine

RESULTS = Path(__file__).parent.parent / "results"


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
        figures = asyncio.run(_measure(folder, quick=options.quick))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    told = {"date": datetime.now(UTC).date().isoformat(), "machine": machine, **figures}
    print(json.dumps(figures, indent=2))
    name = "conversations-quick.json" if options.quick else "conversations.json"
    (RESULTS / name).write_text(json.dumps(told, indent=2) + "\n")
    return 0


async def _measure(folder: Path, *, quick: bool) -> dict[str, Any]:
    bots, each = (10, 4) if quick else (50, 20)
    async with open_ground(folder, audio_seconds=0.05) as ground:
        return {
            "delay": await measure_delay(ground, 50 if quick else 500),
            "burst_small_files": await measure_burst(ground, bots, each, 10_000),
            "burst_large_files": await measure_burst(ground, bots, each, 1_000_000),
            "noisy": await measure_noisy(ground, bots - 1, 2, 100 if quick else 1_000),
            "waiting": await measure_waiting(ground, [100, 500] if quick else [1_000, 10_000]),
        }


if __name__ == "__main__":
    sys.exit(main())
