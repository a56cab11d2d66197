"""One run, told live as Server-Sent Events. A place in it is `{try}-{characters of the answer}`."""

from __future__ import annotations

import json
import re
import time
from collections.abc import AsyncGenerator, Iterator
from typing import Any
from uuid import UUID

from mediamill.api.deps import Deps
from mediamill.api.events import CursorInvalidError, first_lines
from mediamill.clock import wait_at_most
from mediamill.db.connection import LOST
from mediamill.inputs.look import LOOK_SECONDS, show_run
from mediamill.inputs.model import ENDED, Run

PLACE = re.compile(r"([0-9]{1,9})-([0-9]{1,9})")


def read_place(text: str | None) -> tuple[int, int]:
    """The try and how much of its answer is known; of nothing, the beginning."""
    if text is None:
        return 0, 0
    found = PLACE.fullmatch(text.strip())
    if found is None:
        raise CursorInvalidError(fix="send the last `id:` that was received, or nothing")
    return int(found[1]), int(found[2])


class RunStream:
    """What one client is sent."""

    def __init__(self, deps: Deps, run_id: UUID, place: tuple[int, int]) -> None:
        self._settings, self._database, self._watch = deps.settings, deps.database, deps.run_watch
        self._run_id = run_id
        self._try, self._known = place
        self._answer: str | None = None  # as it was when it was last looked at
        self._state: tuple[str, int] | None = None

    async def lines(self) -> AsyncGenerator[str, None]:
        """To the end of the run, or of the server."""
        yield first_lines(self._settings)
        told_at = time.monotonic()
        with self._watch.changes(self._run_id) as changed:
            while not self._watch.closed:
                changed.clear()  # before the look: what changes meanwhile is seen in the next round
                run = await self._look()
                if run is not None and (events := "".join(self._news(run))):
                    yield events
                    told_at = time.monotonic()
                    if run.state in ENDED:
                        return
                if time.monotonic() - told_at >= self._settings.stream_keep_alive_seconds:
                    yield ": keep-alive\n\n"
                    told_at = time.monotonic()
                if not self._watch.closed:
                    await wait_at_most(changed, LOOK_SECONDS)

    async def _look(self) -> Run | None:
        """None: the database is away; the next look may find it."""
        try:
            async with self._database.connection() as connection:
                return await show_run(connection, self._run_id)
        except LOST:
            return None

    def _news(self, run: Run) -> Iterator[str]:
        """What is new since the last look."""
        if run.tries != self._try or not self._goes_on(run):
            if self._try:
                yield _event("restart", {"tries": run.tries})
            self._try, self._known = run.tries, 0
        if (run.state, run.tries) != self._state and run.state not in ENDED:
            yield _event("state", {"state": run.state, "tries": run.tries})
        self._state, self._answer = (run.state, run.tries), run.answer
        if piece := run.answer[self._known :]:
            self._known = len(run.answer)
            yield _event("text", {"text": piece}, f"{run.tries}-{self._known}")
        if run.state in ENDED:
            yield _event(run.state, run.plain())

    def _goes_on(self, run: Run) -> bool:
        """Whether what the client has is the beginning of what there is."""
        return len(run.answer) >= self._known and (
            self._answer is None or run.answer.startswith(self._answer)
        )


def _event(name: str, data: dict[str, Any], place: str | None = None) -> str:
    head = f"id: {place}\n" if place else ""
    return f"{head}event: {name}\ndata: {json.dumps(data)}\n\n"
