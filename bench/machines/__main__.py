"""Three machines under faults: jobs, faults, lost, twice, stuck, and the longest time to recover.

python -m bench.machines
python -m bench.machines --faults 12 --modes hybrid --seed 7
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import signal
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.machine import describe_machine
from bench.machines.network import why_impossible
from bench.machines.run import Plan, Run, is_clean

RESULTS = Path(__file__).parents[1] / "results"
LONG = 100


def main() -> int:
    """Run, print, write; 1 if anything was lost, done twice or stuck."""
    parser = argparse.ArgumentParser(prog="python -m bench.machines", description=__doc__.splitlines()[0])
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=60, help="the longest that faults are made for")
    parser.add_argument("--jobs-per-second", type=float, default=20)
    parser.add_argument("--modes", default="database,redis,hybrid")
    parser.add_argument("--seed", type=int, default=1, help="the same seed makes the same choices")
    parser.add_argument("--keep", type=Path, help="a folder in which the logs stay")
    options = parser.parse_args()
    if why := why_impossible():
        print(why, file=sys.stderr)
        return 2
    machine = describe_machine()
    folder = options.keep or Path(tempfile.mkdtemp(prefix="mediamill-machines-"))
    try:
        modes = tuple(options.modes.split(","))
        plan = Plan(options.faults, modes, options.seed, options.minutes, options.jobs_per_second)
        figures = asyncio.run(_run(Run(plan, folder, lambda text: print(text, flush=True))))
    finally:
        if options.keep is None:
            shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(figures, indent=2))
    told = {"date": datetime.now(UTC).date().isoformat(), "machine": machine, "seed": options.seed, **figures}
    name = "machines.json" if options.faults >= LONG else "machines-quick.json"
    (RESULTS / name).write_text(json.dumps(told, indent=2) + "\n")
    return 0 if is_clean(figures) else 1


async def _run(run: Run) -> dict[str, Any]:
    """Ctrl-C is enough of it: what was handed in is still waited for, and the account is made."""

    def stop() -> None:
        run.is_enough = True

    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stop)
    return await run.run()


if __name__ == "__main__":
    sys.exit(main())
