"""The verdict: the last third of the run beside the first, for everything that could grow."""

from __future__ import annotations

from collections.abc import Sequence
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
    seen = [_read(sample) for sample in samples]
    third = max(len(samples) // 3, 1)
    growth = {}
    for thing in seen[0]:
        values = [each[thing] for each in seen]
        first, last = median(values[:third]), median(values[-third:])
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


def _read(sample: Sample) -> dict[str, float]:
    """All that could grow, in megabytes."""
    read = {f"memory of {name}, MB": float(value) for name, value in sample["memory_mb"].items()}
    for name in JUDGED_TABLES:
        table = sample["tables"][name]
        read[f"table {name}, MB"] = table["bytes"] / MEGABYTE
        read[f"indexes of {name}, MB"] = table["index_bytes"] / MEGABYTE
    return read


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
