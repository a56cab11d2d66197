"""What the benchmarks share: parts that are chosen by name, measured one by one, and told with the machine."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.machine import cores_used, describe_machine

RESULTS = Path(__file__).parent / "results"
BUSY = 0.15  # share of all cores that others use before the run or after it, above which figures are marked

Found = dict[str, Any]


def tell(text: str) -> None:
    """Progress; standard output has the figures only."""
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", file=sys.stderr, flush=True)


def names_from(known: Iterable[str]) -> Callable[[str], list[str]]:
    """For argparse: a list with commas, of names that are known."""

    def parse(text: str) -> list[str]:
        names = text.split(",")
        if unknown := [name for name in names if name not in known]:
            raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; there are: {', '.join(known)}")
        return names

    return parse


def measure_parts(names: Iterable[str], measure: Callable[[str], Found]) -> tuple[Found, dict[str, str]]:
    """What was found of each, and what could not be measured: one part's failure does not cost those of the others."""
    found: Found = {}
    errors: dict[str, str] = {}
    for name in names:
        started = time.monotonic()
        try:
            found[name] = measure(name)
        except Exception as error:
            errors[name] = f"{type(error).__name__}: {error}"
            traceback.print_exc()
        tell(f"{name}: {time.monotonic() - started:.0f} s")
    return found, errors


def look_at_machine() -> Found:
    """Before we load it ourselves."""
    machine = describe_machine()
    tell(f"before the run others use {machine['cores_used_before']} of {machine['cores']} cores")
    return machine


def head_of(module: str, machine: Found) -> Found:
    """How a results file begins: when, where, and by which command. Call it when the work is done."""
    machine |= {"load_after": round(os.getloadavg()[0], 2), "cores_used_after": cores_used()}
    used = max(machine["cores_used_before"], machine["cores_used_after"])
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine,
        "busy": used > BUSY * (machine["cores"] or 1),
        "command": shlex.join(["python", "-m", module, *sys.argv[1:]]),
    }
