"""What is wrong where mediamill runs, each with what to do; decided from the facts of `mediamill doctor`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from mediamill.cli.terminal import plural, size, span

# A transaction open for longer keeps dead rows from being cleaned up, and slows every claim.
LONG_TRANSACTION_SECONDS = 60
CLOCK_SECONDS = 2.0
SHARE_OF_CONNECTIONS = 0.8
LITTLE_SPACE_BYTES = 1_000_000_000
LITTLE_SPACE_SHARE = 0.05
MISSED_SWEEPS = 5


@dataclass(frozen=True, slots=True)
class Symptom:
    """Something is wrong, or soon will be."""

    about: str
    message: str
    fix: str


def find_symptoms(facts: dict[str, Any]) -> list[Symptom]:
    """All of them."""
    database = facts["database"]
    found = [*_disk(facts["disk"]), *_children(facts["confinement_gaps"])]
    if database["exists"] and "error" not in database:
        found += [*_transaction(database), *_clock(database), *_connections(database)]
        found += [*_sweeps(database), *_alerts(database), *_waits(database)]
    return found


def _children(gaps: list[str]) -> Iterator[Symptom]:
    for gap in gaps:
        yield Symptom(
            "children", gap, "use Linux 6.12 or newer with Landlock; `mediamill sandbox` lists what is open"
        )


def _transaction(database: dict[str, Any]) -> Iterator[Symptom]:
    oldest = database["oldest_transaction"]
    if oldest is not None and oldest["seconds"] > LONG_TRANSACTION_SECONDS:
        yield Symptom(
            "database",
            f"a transaction of {oldest['application_name'] or 'a client'} (process {oldest['pid']}) has been open for "
            f"{span(oldest['seconds'])}: it slows every claim. It runs: {oldest['query']}",
            f"end it: select pg_terminate_backend({oldest['pid']})",
        )


def _clock(database: dict[str, Any]) -> Iterator[Symptom]:
    skew = database["clock_skew_seconds"]
    if abs(skew) > CLOCK_SECONDS:
        way = "behind" if skew > 0 else "ahead of"
        yield Symptom(
            "clock",
            f"the clock of this machine is {span(abs(skew))} {way} the database's: times in logs, traces and pages "
            "are off by as much (leases are not: the database alone measures them)",
            "let both keep time by NTP: timedatectl set-ntp true",
        )


def _connections(database: dict[str, Any]) -> Iterator[Symptom]:
    used, most = database["connections"], database["most_connections"]
    if used > most * SHARE_OF_CONNECTIONS:
        yield Symptom(
            "database",
            f"{used} of {most} connections are used; a process that starts may get none",
            "raise max_connections of the database, lower MEDIAMILL_DATABASE_CONNECTIONS, or put a pooler between",
        )


def _disk(disk: dict[str, Any]) -> Iterator[Symptom]:
    free, total = disk["free_bytes"], disk["total_bytes"]
    if free < max(LITTLE_SPACE_BYTES, total * LITTLE_SPACE_SHARE):
        yield Symptom(
            "disk",
            f"only {size(free)} of {size(total)} are free in {disk['data_folder']}",
            "free some space: mediamill trash empty, old backups, or move the data folder (MEDIAMILL_DATA)",
        )


def _sweeps(database: dict[str, Any]) -> Iterator[Symptom]:
    """Only where somebody should sweep: jobs wait, or somebody works."""
    if "last_sweep_at" not in database:
        return
    at, now = database["last_sweep_at"], database["now"]
    pause = timedelta(seconds=MISSED_SWEEPS * max(60.0, database["sweep_seconds"]))
    alive = sum(database["workers"][state] for state in ("active", "idle", "busy", "paused"))
    waiting = sum(database["jobs"][state] for state in ("queued", "scheduled", "running"))
    if (alive or waiting) and (at is None or now - at > pause):
        since = "never" if at is None else f"for {span((now - at).total_seconds())} not"
        yield Symptom(
            "sweep",
            f"nobody sweeps ({since}): claims of workers that are gone are not put back, jobs that come due wait",
            "start a server (mediamill up) or a worker beside the database; if one runs, its log says why it cannot",
        )


def _waits(database: dict[str, Any]) -> Iterator[Symptom]:
    for wait in database.get("waits", ()):
        since = wait["since"] or database["now"]
        waited = span((database["now"] - since).total_seconds())
        yield Symptom(
            "models",
            f"{plural(wait['jobs'], 'job')} waiting for the model server at {wait['server']}, for {waited} "
            f"({wait['reason']})",
            "start the server, or raise its limit; the jobs continue by themselves",
        )


def _alerts(database: dict[str, Any]) -> Iterator[Symptom]:
    alerts = database.get("alerts")
    if alerts is None:
        return
    failing, given_up = alerts["failing"], alerts["given_up"]
    if failing or given_up:
        yield Symptom(
            "alerts",
            f"{plural(failing, 'alert')} did not arrive so far, {given_up} were given up in the last seven days: "
            f"{alerts['last_error']}",
            "check MEDIAMILL_ALERT_WEBHOOK_URL and its receiver; mediamill check looks at the settings",
        )


def skew_seconds(before: datetime, theirs: datetime, after: datetime) -> float:
    """How far their clock is ahead of ours; they were asked between the two times."""
    return (theirs - (before + (after - before) / 2)).total_seconds()
