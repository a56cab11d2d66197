"""Run everything that a change must pass, several times in a row, quiet or beside load: does it ever fail by chance?

python -m bench.suite --runs 5
python -m bench.suite --runs 5 --load 8    (beside eight processes that never wait)

Each run is added to bench/results/suite.json; a failed run does not end the row.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.frame import RESULTS, tell
from bench.machine import describe_machine

ROOT = Path(__file__).resolve().parents[1]
COMMAND = ("bash", ".ci/run")
CLOSING = re.compile(r"(\d+) (passed|failed|skipped|errors?)\b")
TIME = re.compile(r" in ([\d.]+)s")
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


def main() -> int:
    """Run, print, write; the exit code says whether all passed."""
    parser = argparse.ArgumentParser(prog="python -m bench.suite", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1, help="how many, one after the other (default: 1)")
    parser.add_argument("--load", type=int, default=0, help="busy processes beside it (default: none)")
    parser.add_argument("--log", type=Path, default=ROOT / ".cache" / "suite", help="folder for the output")
    options = parser.parse_args()
    path = RESULTS / "suite.json"
    machine = describe_machine()
    passed = True
    for number in range(options.runs):
        run = run_once(COMMAND, options.load, options.log)
        passed &= not run["exit_code"]
        known = json.loads(path.read_text())["runs"] if path.exists() else []
        path.write_text(json.dumps({"machine": machine, "runs": [*known, run]}, indent=1) + "\n")
        tell(f"run {number + 1} of {options.runs}: {json.dumps(run)}")
    return 0 if passed else 1


def run_once(command: tuple[str, ...], load: int, logs: Path) -> dict[str, Any]:
    """What one run showed."""
    logs.mkdir(parents=True, exist_ok=True)
    began, started = datetime.now(UTC), time.monotonic()
    log = logs / f"{began:%Y%m%dT%H%M%S}.log"
    with busy_processes(load), log.open("w") as stream:
        code = subprocess.run(
            command, cwd=ROOT, stdout=stream, stderr=subprocess.STDOUT, check=False
        ).returncode
    seconds = time.monotonic() - started
    return {
        "date": began.isoformat(timespec="seconds"),
        "commit": _commit(),
        "load": load,
        "exit_code": code,
        "minutes": round(seconds / 60, 1),
        **read_output(log.read_text(errors="replace")),
    }


def read_output(text: str) -> dict[str, Any]:
    """The figures of pytest's closing line, and the names of what failed."""
    closing = next((line for line in reversed(text.splitlines()) if TIME.search(line)), "")
    seconds = TIME.search(closing)
    return {
        "test_minutes": round(float(seconds[1]) / 60, 1) if seconds else None,
        **{name: int(count) for count, name in CLOSING.findall(closing)},
        "failures": FAILED.findall(text),
    }


@contextmanager
def busy_processes(count: int) -> Iterator[int | None]:
    """That never wait for anything, in a session of their own, as those of somebody else who is logged in."""
    if not count:
        yield None
        return
    code = f"import os\nfor _ in range({count - 1}):\n    if os.fork() == 0: break\nwhile True: pass"
    busy = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    try:
        yield busy.pid
    finally:
        os.killpg(busy.pid, signal.SIGKILL)
        busy.wait()


def _commit() -> str:
    answer = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return answer.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
