"""Our own engine. Not wired yet: every function says so until the engine is there."""

from __future__ import annotations

from typing import NoReturn

from bench.engine.peers import EVERY_PEER, NotWiredError

PHASES = EVERY_PEER | {"kill", "sandbox"}
CONCURRENCY = 500
MAX_JOBS = None


def _refuse(*_: object) -> NoReturn:
    raise NotWiredError(
        "mediamill is not wired yet: bench/engine/peers/mediamill.py has no adapter for the engine"
    )


prepare = enqueue = open_submitter = run_worker = count_unfinished = fill_finished = fill_waiting = _refuse
