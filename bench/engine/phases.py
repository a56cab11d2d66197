"""The phases: each measures one thing about one peer in a fresh database, and gives a row of figures.

A drain's clock runs from the first job's body until the store calls every job finished; starting Python and
connecting are not charged to the jobs.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.engine import measure
from bench.engine.bodies import SLOW_SECONDS
from bench.engine.measure import Runs, ServerCounters, read_runs, read_server
from bench.engine.peers import Peer, PeerFailedError
from bench.engine.workers import WorkerGroup, running_workers

Row = dict[str, Any]
POLL_SECONDS = 0.01
STATISTICS_SECONDS = 0.3  # an ended backend has reported its commits by then
WARM_UP_JOBS = 5
LATENCY_PAUSE_SECONDS = 0.03
KILL_JOBS = 8
STORE_POLL_SECONDS = 0.02


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    jobs: int = 20_000
    fill: int = 1_000_000
    samples: int = 200
    drain_limit_seconds: float = 60.0
    kill_limit_seconds: float = 45.0


QUICK = Sizes(jobs=4_000, fill=50_000, samples=40, drain_limit_seconds=20.0)


@dataclass(frozen=True)
class Trial:
    """One peer in one fresh, prepared database."""

    name: str
    peer: Peer
    url: str
    sizes: Sizes

    @property
    def jobs(self) -> int:
        """Jobs to drain; fewer for a slow peer."""
        return min(self.sizes.jobs, self.peer.MAX_JOBS or self.sizes.jobs)


def measure_enqueue(trial: Trial) -> Row:
    """Jobs per second by the peer's best bulk call."""
    return {"rate": _enqueue(trial, "noop", trial.sizes.jobs)}


def measure_drain1(trial: Trial) -> Row:
    """One worker process, jobs enqueued before."""
    rate = _enqueue(trial, "noop", trial.jobs)
    return {**_drain(trial), "enqueue_rate": rate}


def measure_drain2(trial: Trial) -> Row:
    """Two worker processes."""
    rate = _enqueue(trial, "noop", trial.jobs)
    return {**_drain(trial, processes=2), "enqueue_rate": rate}


def measure_finished(trial: Trial) -> Row:
    """As drain1, in a store that keeps a million finished jobs."""
    trial.peer.fill_finished(trial.url, trial.sizes.fill)
    _enqueue(trial, "noop", trial.jobs)
    return _drain(trial)


def measure_waiting(trial: Trial) -> Row:
    """The first jobs out of a million waiting ones; the clock stops at the last body, not in the store."""
    trial.peer.fill_waiting(trial.url, trial.sizes.fill)
    return _drain(trial, to_the_end=False)


def measure_sandbox(trial: Trial) -> Row:
    """No-op jobs whose body runs in a sandboxed child process."""
    _enqueue(trial, "sandbox", trial.jobs)
    return _drain(trial)


def _enqueue(trial: Trial, kind: str, count: int) -> float:
    return round(count / trial.peer.enqueue(trial.url, kind, count), 1)


def _drain(trial: Trial, processes: int = 1, to_the_end: bool = True) -> Row:
    measure.clear_scratch()
    before = read_server(trial.url)
    with running_workers(trial.name, trial.url, trial.peer.CONCURRENCY, processes) as workers:
        started_at = time.time()
        boot_runs, boot_cpu = _wait_for_first(trial, workers, started_at)
        _wait_for_runs(trial, workers, started_at)
        if to_the_end:
            _wait_for_store(trial, started_at)
        ended_at, runs = time.time(), read_runs()
        worker_cpu = measure.cpu_seconds(workers.pids) - boot_cpu
        server_cpu = read_server(trial.url).cpu_seconds - before.cpu_seconds
    clock_ends_at = ended_at if to_the_end and runs.count >= trial.jobs else runs.last_at
    return {
        "rate": round(runs.count / max(clock_ends_at - runs.first_at, 1e-9), 1),
        "run_rate": round(runs.count / max(runs.last_at - runs.first_at, 1e-9), 1),
        "jobs": runs.count,
        "cut": runs.count < trial.jobs,  # out of time: the rate is over what was run
        "processes": runs.processes,
        "worker_cpu_us": round(worker_cpu / max(1, runs.count - boot_runs.count) * 1e6),
        "server_cpu_us": round(server_cpu / runs.count * 1e6),
        **_log_cost(trial, before),
    }


def _wait_for_first(trial: Trial, workers: WorkerGroup, started_at: float) -> tuple[Runs, float]:
    """Runs and CPU at the first sight of a run: what came before is start-up."""
    while not (runs := read_runs()).count:
        workers.check_alive()
        if time.time() - started_at > trial.sizes.drain_limit_seconds:
            raise PeerFailedError(f"{trial.name} ran nothing within {trial.sizes.drain_limit_seconds:.0f} s")
        time.sleep(POLL_SECONDS)
    return runs, measure.cpu_seconds(workers.pids)


def _wait_for_runs(trial: Trial, workers: WorkerGroup, started_at: float) -> None:
    while read_runs().count < trial.jobs and time.time() - started_at < trial.sizes.drain_limit_seconds:
        workers.check_alive()
        time.sleep(POLL_SECONDS)


def _wait_for_store(trial: Trial, started_at: float) -> None:
    """Every body may have run while completions are still on their way to the store."""
    if read_runs().count < trial.jobs:
        return  # cut by time
    while trial.peer.count_unfinished(trial.url):
        if time.time() - started_at > trial.sizes.drain_limit_seconds:
            raise PeerFailedError(f"{trial.name} ran every job but did not finish them all")
        time.sleep(STORE_POLL_SECONDS)


def _log_cost(trial: Trial, before: ServerCounters) -> Row:
    """WAL and commits per job, read when the workers are gone and their statistics are in."""
    time.sleep(STATISTICS_SECONDS)
    after, runs = read_server(trial.url), read_runs().count
    return {
        "wal_bytes": round((after.wal_bytes - before.wal_bytes) / runs),
        "commits": round((after.commits - before.commits) / runs, 3),
    }


def measure_latency(trial: Trial) -> Row:
    """An idle worker and one job at a time: from just before the submit to the job's body running."""
    measure.clear_scratch()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(str(measure.latency_socket()))
        heard.settimeout(30)
        with running_workers(trial.name, trial.url, trial.peer.CONCURRENCY):
            submitter = trial.peer.open_submitter(trial.url)
            try:
                samples = _sample_latency(trial, submitter.send, heard)
            finally:
                submitter.close()
    started_ms, submitted_ms = [s[0] for s in samples], [s[1] for s in samples]
    return {
        "samples": len(samples),
        "p50_ms": _percentile(started_ms, 0.5),
        "p99_ms": _percentile(started_ms, 0.99),
        "max_ms": round(max(started_ms), 2),
        "submit_p50_ms": _percentile(submitted_ms, 0.5),
    }


def _sample_latency(
    trial: Trial, send: Callable[[int], None], heard: socket.socket
) -> list[tuple[float, float]]:
    """(until running, until submitted) in milliseconds; the first few wait for the worker to start."""
    samples = []
    for number in range(trial.sizes.samples + WARM_UP_JOBS):
        before = time.time()
        send(number)
        submitted = time.time()
        running = _hear(trial, heard, number)
        if number >= WARM_UP_JOBS:
            samples.append(((running - before) * 1e3, (submitted - before) * 1e3))
        time.sleep(LATENCY_PAUSE_SECONDS)  # let the worker become idle again
    return samples


def _hear(trial: Trial, heard: socket.socket, number: int) -> float:
    while True:
        try:
            said, at = heard.recv(200).split()
        except TimeoutError:
            raise PeerFailedError(f"{trial.name} did not run a submitted job within 30 s") from None
        if int(said) == number:
            return float(at)


def _percentile(values: list[float], share: float) -> float:
    return round(sorted(values)[min(len(values) - 1, int(share * len(values)))], 2)


def measure_kill(trial: Trial) -> Row:
    """kill -9 of a worker in the middle of its jobs, another one started at once, all by default settings."""
    return _kill(trial, elsewhere=False)


def measure_kill_elsewhere(trial: Trial) -> Row:
    """The same for a worker on another machine: nobody can see there that its process is gone."""
    return _kill(trial, elsewhere=True)


def _kill(trial: Trial, elsewhere: bool) -> Row:
    measure.clear_scratch()
    trial.peer.enqueue(trial.url, "slow", KILL_JOBS)
    concurrency = min(trial.peer.CONCURRENCY, KILL_JOBS)
    with running_workers(trial.name, trial.url, concurrency, elsewhere=elsewhere):
        if not _wait_until(lambda: len(_events("start")) >= KILL_JOBS, 40):
            raise PeerFailedError(f"{trial.name} did not start {KILL_JOBS} jobs side by side")
        time.sleep(1.0)  # in the middle of the jobs, not at their start
        in_flight = set(_events("start")) - set(_events("end"))
    killed_at = time.time()

    def run_again() -> dict[int, float]:
        return {
            n: at[-1] - killed_at
            for n, at in _events("start").items()
            if n in in_flight and at[-1] > killed_at
        }

    with running_workers(trial.name, trial.url, concurrency):
        _wait_until(lambda: len(run_again()) == len(in_flight), trial.sizes.kill_limit_seconds)
        seconds, watched = sorted(run_again().values()), time.time() - killed_at
        if seconds:
            _wait_until(lambda: len(_events("end")) == KILL_JOBS, SLOW_SECONDS + 2)
    return {
        "in_flight": len(in_flight),
        "run_again": len(seconds),
        "first_seconds": round(seconds[0], 1) if seconds else None,
        "last_seconds": round(seconds[-1], 1) if len(seconds) == len(in_flight) else None,
        "watched_seconds": round(watched),
        "never_finished": KILL_JOBS - len(_events("end")),
    }


def _events(name: str) -> dict[int, list[float]]:
    """Times of the starts or ends of the slow jobs, by job."""
    times: dict[int, list[float]] = {}
    if measure.event_log().exists():
        for line in measure.event_log().read_text().splitlines():
            event, number, at = line.split()
            if event == name:
                times.setdefault(int(number), []).append(float(at))
    return times


def _wait_until(condition: Callable[[], bool], limit_seconds: float) -> bool:
    ends_at = time.time() + limit_seconds
    while not (met := condition()) and time.time() < ends_at:
        time.sleep(0.05)
    return met


def measure_memory(trial: Trial) -> Row:
    """Peak memory of a worker over the same number of jobs: alone in the queue, then before a million."""
    _enqueue(trial, "noop", trial.jobs)
    alone = _peak_bytes(trial)
    trial.peer.fill_waiting(trial.url, trial.sizes.fill)
    crowded = _peak_bytes(trial)
    return {
        "empty_mb": round(alone / 1e6, 1),
        "waiting_mb": round(crowded / 1e6, 1),
        "growth_mb": round((crowded - alone) / 1e6, 1),
    }


def _peak_bytes(trial: Trial) -> int:
    measure.clear_scratch()
    peak = 0
    with running_workers(trial.name, trial.url, trial.peer.CONCURRENCY) as workers:
        started_at = time.time()
        _wait_for_first(trial, workers, started_at)
        while read_runs().count < trial.jobs and time.time() - started_at < trial.sizes.drain_limit_seconds:
            peak = max(peak, measure.resident_bytes(workers.pids))
            time.sleep(POLL_SECONDS)
        return max(peak, measure.resident_bytes(workers.pids))


PHASES: dict[str, Callable[[Trial], Row]] = {
    "enqueue": measure_enqueue,
    "drain1": measure_drain1,
    "drain2": measure_drain2,
    "latency": measure_latency,
    "finished": measure_finished,
    "waiting": measure_waiting,
    "sandbox": measure_sandbox,
    "kill": measure_kill,
    "kill-elsewhere": measure_kill_elsewhere,
    "memory": measure_memory,
}
ONCE = frozenset(
    {"kill", "kill-elsewhere", "memory"}
)  # minutes of waiting that further rounds would not make more exact
