"""The verdict: the last third of the run beside the first, for everything that could grow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from bench.load.watching import MEGABYTE

MOST_GROWTH = 1.10  # of the median of the last third to that of the first
SMALL_MB = 4.0  # what is smaller than this, or grew by less, is not worth a word
# The dead letter is kept until somebody purges it: it grows by design, and is told, not judged.
JUDGED_TABLES = ("jobs", "finished_jobs", "events", "job_keys", "throughput", "counters", "workers")

Sample = dict[str, Any]


def judge(samples: Sequence[Sample]) -> dict[str, Any]:
    """Growth of each thing, and whether all of it is flat."""
    things: dict[str, Callable[[Sample], float]] = {
        f"memory of {name}, MB": lambda s, name=name: s["memory_mb"][name] for name in samples[0]["memory_mb"]
    }
    for name in JUDGED_TABLES:
        things[f"table {name}, MB"] = lambda s, name=name: s["tables"][name]["bytes"] / MEGABYTE
        things[f"indexes of {name}, MB"] = lambda s, name=name: s["tables"][name]["index_bytes"] / MEGABYTE
    third = max(len(samples) // 3, 1)
    growth = {}
    for thing, read in things.items():
        first, last = median(map(read, samples[:third])), median(map(read, samples[-third:]))
        flat = last <= first * MOST_GROWTH or last - first <= SMALL_MB
        growth[thing] = {"first": round(first, 1), "last": round(last, 1), "flat": flat}
    before, after = samples[0]["tables"], samples[-1]["tables"]
    return {
        "flat": all(each["flat"] for each in growth.values()),
        "growth": growth,
        "vacuums": {name: after[name]["vacuums"] - before[name]["vacuums"] for name in after},
        "most_dead_rows": {name: max(sample["tables"][name]["dead"] for sample in samples) for name in after},
        "most_waiting": max(sample["waiting"] for sample in samples),
    }


def print_minute(line: dict[str, Any]) -> None:
    """One line of the run."""
    memory = ", ".join(f"{name} {value:.0f}" for name, value in line["memory_mb"].items())
    print(
        f"{line['minute']:>3} min  {line['added_per_second']:,.0f} in/s {line['ended_per_second']:,.0f} out/s  "
        f"p50 {line['p50_ms']:.0f} p99 {line['p99_ms']:.0f} longest {line['longest_ms']:.0f} ms  "
        f"waiting {line['waiting']}  MB: {memory}; jobs {line['jobs_mb']}, finished {line['finished_jobs_mb']}, "
        f"events {line['events_mb']}, WAL {line['wal_mb']}",
        flush=True,
    )


def print_verdict(figures: dict[str, Any]) -> None:
    """What grew, if anything."""
    for thing, each in figures["growth"].items():
        print(f"{'flat ' if each['flat'] else 'GROWS'} {thing}: {each['first']} -> {each['last']}")
    print(f"autovacuums: {figures['vacuums']}")
    print(f"most dead rows: {figures['most_dead_rows']}; most waiting: {figures['most_waiting']}")
