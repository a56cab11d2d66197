"""The pages of pools: what they are and how deep, and a form for one, judged by the engine itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from mediamill.db.connection import Database
from mediamill.engine import pools, watch
from mediamill.engine.pools import Fault, Pool, PoolInvalidError
from mediamill.errors import NotFoundError
from mediamill.processors.registry import processor_names
from mediamill.ui.forms import read_form
from mediamill.ui.rendering import Renderer


@dataclass(frozen=True, slots=True)
class Field:
    """One setting of a pool, as the form shows it."""

    name: str
    label: str
    hint: str
    unit: str = ""


NUMBERS = (
    Field("concurrency", "At once", "Jobs of this pool that one worker runs side by side."),
    Field("timeout_seconds", "Time limit", "Longest time of one attempt.", "seconds"),
    Field("max_attempts", "Attempts", "So often a job is tried before it goes to the dead letter."),
    Field("memory_bytes", "Memory", "Most that the process of one attempt may take.", "bytes"),
    Field("backoff_seconds", "First back-off", "Wait after the first failure; doubled each time.", "seconds"),
    Field("backoff_limit_seconds", "Longest back-off", "The wait grows no further than this.", "seconds"),
    Field("lease_seconds", "Lease", "A claim holds for this long without a sign of life.", "seconds"),
    Field("stale_seconds", "Stale after", "Past its lease by so much, a claim is taken back.", "seconds"),
    Field(
        "no_progress_seconds",
        "No-progress limit",
        "An attempt that reports nothing for this long is stopped and resumed. 0: no limit.",
        "seconds",
    ),
    Field(
        "forget_after_seconds",
        "Give up after",
        "A job that nobody moves for so long is dead. Time without a server or a worker does not count.",
        "seconds",
    ),
)
SWITCHES = (
    Field("retry", "Try again after a failure", ""),
    Field("gpu", "GPU first", "Workers with a GPU are offered its jobs first."),
)


class UnknownPoolError(NotFoundError):
    """There is no such pool."""

    code = "unknown_pool"


def add_pool_pages(router: APIRouter, renderer: Renderer, database: Database) -> None:
    """Their routes."""
    pages = _PoolPages(renderer, database)
    router.get("/pools")(pages.all)
    router.post("/pools")(pages.create)
    router.post("/pools/{name:path}/drop")(pages.drop)
    router.get("/pools/{name:path}")(pages.one)
    router.post("/pools/{name:path}")(pages.change)


class _PoolPages:
    def __init__(self, renderer: Renderer, database: Database) -> None:
        self._renderer, self._database = renderer, database

    async def all(self, done: str = "", part: str | None = None) -> HTMLResponse:
        """Every pool, and a form for a new one; with `part` only the list."""
        return await self._all("pools/list.html" if part else "pools/all.html", done=done)

    async def one(self, name: str) -> HTMLResponse:
        """One pool in its form."""
        return await self._one(name)

    async def create(self, request: Request) -> Response:
        """A new one; one that is there already is not changed by mistake."""
        form = await read_form(request)
        given = _read(form)
        try:
            async with self._database.transaction() as connection:
                if any(pool.name == given["name"] for pool in await pools.list_pools(connection)):
                    raise PoolInvalidError([Fault(f"there is a pool named {given['name']} already", "name")])
                await pools.set_pools(connection, [given], processor_names())
        except PoolInvalidError as error:
            return await self._all("pools/all.html", 422, form=_typed(form), faults=error.faults)
        return RedirectResponse(f"/pools?done={quote('made: ' + given['name'])}", 303)

    async def change(self, request: Request, name: str) -> Response:
        """Another definition. A bad one is refused: the old one stays in force, and what was typed in the form."""
        form = await read_form(request)
        try:
            async with self._database.transaction() as connection:
                await pools.set_pools(connection, [{**_read(form), "name": name}], processor_names())
        except PoolInvalidError as error:
            return await self._one(name, 422, form=_typed(form), faults=error.faults)
        return RedirectResponse(f"/pools?done={quote('saved: ' + name)}", 303)

    async def drop(self, name: str) -> Response:
        """Its jobs move to the catch-all."""
        try:
            async with self._database.transaction() as connection:
                await pools.set_pools(connection, [], processor_names(), drop=[name])
        except PoolInvalidError as error:
            return await self._one(name, 422, faults=error.faults)
        return RedirectResponse(f"/pools?done={quote('dropped: ' + name)}", 303)

    async def _all(
        self,
        template: str,
        status_code: int = 200,
        *,
        done: str = "",
        form: Mapping[str, Any] | None = None,
        faults: Sequence[Fault] = (),
    ) -> HTMLResponse:
        async with self._database.connection() as connection:
            found = await pools.list_pools(connection)
            depths = {depth["pool"]: depth for depth in await watch.pool_depths(connection)}
        return self._renderer.page(
            template,
            status_code,
            pools=[{**pool.as_dict(), "jobs": depths.get(pool.name, {})} for pool in found],
            done=done,
            **_form(form or _shown(Pool("")), faults),
        )

    async def _one(
        self,
        name: str,
        status_code: int = 200,
        *,
        form: Mapping[str, Any] | None = None,
        faults: Sequence[Fault] = (),
    ) -> HTMLResponse:
        async with self._database.connection() as connection:
            found = {pool.name: pool for pool in await pools.list_pools(connection)}
        if name not in found:
            raise UnknownPoolError(f"there is no pool {name[:100]!r}", fix="/pools shows those there are")
        shown = _form(form or _shown(found[name]), faults)
        return self._renderer.page("pools/one.html", status_code, pool=found[name], **shown)


def _form(values: Mapping[str, Any], faults: Sequence[Fault]) -> dict[str, Any]:
    """What the template of the form needs."""
    by_field: dict[str, str] = {}
    for fault in faults:
        if fault.field is not None:
            by_field[fault.field] = f"{by_field[fault.field]}; {fault}" if fault.field in by_field else fault
    return {
        "form": values,
        "faults": faults,
        "by_field": by_field,
        "numbers": NUMBERS,
        "switches": SWITCHES,
        "processors": processor_names(),
    }


def _shown(pool: Pool) -> dict[str, Any]:
    """A pool, as the form has it."""
    return {**pool.as_dict(), "matches": "\n".join(pool.matches), "processor": pool.processor or ""}


def _typed(form: Mapping[str, list[str]]) -> dict[str, Any]:
    """What was typed, to be shown again."""
    texts = {name: form.get(name, [""])[0] for name in ("name", "processor")}
    numbers = {field.name: form.get(field.name, [""])[0] for field in NUMBERS}
    # Not `matches`: to scripts, a field of that name would hide the form's own function.
    return {
        **texts,
        "matches": form.get("takes", [""])[0],
        **numbers,
        **{field.name: field.name in form for field in SWITCHES},
    }


def _read(form: Mapping[str, list[str]]) -> dict[str, Any]:
    """A definition as the engine takes it. A text that is no number stays one: the engine says what is wrong."""
    typed = _typed(form)
    numbers = {field.name: _number(typed[field.name]) for field in NUMBERS}
    matches = typed["matches"].replace(",", " ").split()
    name, processor = typed["name"].strip(), typed["processor"].strip()
    switches = {field.name: typed[field.name] for field in SWITCHES}
    return {"name": name, "matches": matches, "processor": processor or None, **numbers, **switches}


def _number(text: str) -> int | float | str:
    plain = text.strip().replace(",", "").replace("_", "")
    for kind in (int, float):
        try:
            return kind(plain)
        except ValueError:
            continue
    return text
