"""What the routes are given: the database, the engine, the settings, and whoever knows what goes on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Path, Request

from mediamill.conversations.keeper import BotKeeper
from mediamill.db.connection import Database
from mediamill.dispatch.choose import Dispatch
from mediamill.engine.enqueue import Enqueuer
from mediamill.engine.rules import Engine
from mediamill.inputs.look import RunWatch
from mediamill.settings import Settings
from mediamill.storage.pulse import Pulse


@dataclass(frozen=True, slots=True)
class Deps:
    """One per server."""

    database: Database
    engine: Engine
    enqueuer: Enqueuer
    settings: Settings
    keeper: BotKeeper
    run_watch: RunWatch
    dispatch: Dispatch
    pulse: Pulse


def _deps(request: Request) -> Deps:
    deps: Deps = request.app.state.deps
    return deps


Wired = Annotated[Deps, Depends(_deps)]
Id = Annotated[int, Path(ge=1, le=2**63 - 1)]
WorkerId = Annotated[int, Path(ge=1, le=2**31 - 1)]
