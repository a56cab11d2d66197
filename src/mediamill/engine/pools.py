"""Pools: which jobs go together, how many at once, how long, how often. They live in the database."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from mediamill.db.connection import Connection
from mediamill.engine import store
from mediamill.errors import InvalidError


class Fault(str):
    """What is wrong, in words; `field` is the setting that it is about, for a form to show it there."""

    field: str | None

    def __new__(cls, text: str, field: str | None = None) -> Self:
        """A text that knows its place."""
        fault = super().__new__(cls, text)
        fault.field = field
        return fault


class PoolInvalidError(InvalidError):
    """The pool definitions are not valid."""

    code = "pool_invalid"

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = list(faults)
        super().__init__(
            "; ".join(faults), fix="nothing was changed; correct the definition and set it again"
        )


@dataclass(frozen=True, slots=True)
class Pool:
    """One pool. `matches` lists mime types and job kinds; empty makes it the catch-all.

    `no_progress_seconds`: an attempt that reports nothing for this long is stopped and its job released; 0: no limit.
    """

    name: str
    matches: tuple[str, ...] = ()
    processor: str | None = None
    concurrency: int = 1
    timeout_seconds: float = 60
    max_attempts: int = 3
    lease_seconds: float = 300
    stale_seconds: float = 900
    no_progress_seconds: float = 0
    retry: bool = True
    backoff_seconds: float = 2
    backoff_limit_seconds: float = 300
    memory_bytes: int = 1_073_741_824
    gpu: bool = False
    forget_after_seconds: float = 10_800

    def as_dict(self) -> dict[str, Any]:
        """For people and scripts."""
        return {**asdict(self), "matches": list(self.matches)}


_TYPES: dict[str, tuple[type, ...]] = {
    "name": (str,),
    "processor": (str, type(None)),
    "concurrency": (int,),
    "timeout_seconds": (int, float),
    "max_attempts": (int,),
    "lease_seconds": (int, float),
    "stale_seconds": (int, float),
    "no_progress_seconds": (int, float),
    "retry": (bool,),
    "backoff_seconds": (int, float),
    "backoff_limit_seconds": (int, float),
    "memory_bytes": (int,),
    "gpu": (bool,),
    "forget_after_seconds": (int, float),
}
_RANGES: dict[str, tuple[float, float]] = {
    "concurrency": (1, 10_000),
    "timeout_seconds": (0.001, 7 * 86_400),
    "max_attempts": (1, 1_000),
    "lease_seconds": (1, 7 * 86_400),
    "stale_seconds": (0, 30 * 86_400),
    "no_progress_seconds": (0, 7 * 86_400),
    "backoff_seconds": (0, 86_400),
    "backoff_limit_seconds": (0, 7 * 86_400),
    "memory_bytes": (64 * 1024 * 1024, 1 << 50),
    "forget_after_seconds": (0, 365 * 86_400),
}


def read_pool(given: Mapping[str, Any]) -> tuple[Pool | None, list[Fault]]:
    """A definition from JSON: the pool, or every fault in it."""
    name = str(given.get("name", "")) or "?"
    faults = [Fault(f"pool {name}: {fault}", fault.field) for fault in _faults(given)]
    if faults:
        return None, faults
    values = {key: value for key, value in given.items() if key != "matches"}
    return Pool(**values, matches=tuple(given.get("matches", ()))), []


def _faults(given: Mapping[str, Any]) -> list[Fault]:
    known = {field.name for field in fields(Pool)}
    faults = [
        Fault(f"there is no setting {key!r}; there are {', '.join(sorted(known))}")
        for key in given
        if key not in known
    ]
    if not given.get("name") or not isinstance(given["name"], str):
        faults.append(Fault("name is missing", "name"))
    matches = given.get("matches", [])
    if not isinstance(matches, list | tuple) or not all(isinstance(item, str) and item for item in matches):
        text = "matches must be a list of mime types and job kinds, empty for the catch-all"
        faults.append(Fault(text, "matches"))
    for key, types in _TYPES.items():
        if key in given and (
            not isinstance(given[key], types) or (isinstance(given[key], bool) and bool not in types)
        ):
            named = " or ".join(kind.__name__ for kind in types)
            faults.append(Fault(f"{key} must be {named}, not {given[key]!r}", key))
        elif key in given and key in _RANGES and not _RANGES[key][0] <= given[key] <= _RANGES[key][1]:
            low, high = _RANGES[key]
            faults.append(Fault(f"{key} must be between {low:g} and {high:g}, not {given[key]!r}", key))
    return faults


def judge_pools(pools: Sequence[Pool], processors: Collection[str]) -> list[Fault]:
    """Every fault of a whole set of pools."""
    faults = []
    catch_all = [pool.name for pool in pools if not pool.matches]
    if not catch_all:
        faults.append(Fault("no pool is the catch-all: exactly one must have matches []", "matches"))
    if len(catch_all) > 1:
        text = f"more than one catch-all: {', '.join(catch_all)}; exactly one may have matches []"
        faults.append(Fault(text, "matches"))
    names = [pool.name for pool in pools]
    faults += [
        Fault(f"two pools are named {name}", "name")
        for name in sorted({name for name in names if names.count(name) > 1})
    ]
    taken: dict[str, str] = {}
    for pool in pools:
        for match in pool.matches:
            if taken.setdefault(match, pool.name) != pool.name:
                faults.append(Fault(f"{match} is matched by {taken[match]} and by {pool.name}", "matches"))
        if pool.processor is not None and pool.processor not in processors:
            known = ", ".join(sorted(processors))
            text = f"pool {pool.name}: there is no processor {pool.processor!r}; there are {known}"
            faults.append(Fault(text, "processor"))
    return faults


async def list_pools(connection: Connection) -> list[Pool]:
    """All pools, the catch-all last."""
    rows = await store.pools.list_pools.rows(connection)
    return [Pool(**{**dict(row), "matches": tuple(row["matches"])}) for row in rows]


async def lock_pools(connection: Connection) -> None:
    """Until the end of the transaction nobody else changes them."""
    await store.pools.lock_pools.run(connection)


async def set_pools(
    connection: Connection,
    changes: Sequence[Mapping[str, Any]],
    processors: Collection[str],
    *,
    replace: bool = False,
    drop: Collection[str] = (),
    reroute: bool = False,
) -> list[Pool]:
    """Change some pools (missing settings keep their value), or replace all. All or nothing, in a transaction.

    Waiting jobs of pools that go move to the catch-all; with `reroute` to the pool that would take them now.
    """
    await lock_pools(connection)
    old = {pool.name: pool for pool in await list_pools(connection)}
    faults = [Fault(f"there is no pool named {name} to drop") for name in drop if name not in old]
    new: dict[str, Pool] = {} if replace else {name: pool for name, pool in old.items() if name not in drop}
    for change in changes:
        before = old.get(str(change.get("name")))
        pool, found = read_pool({**(before.as_dict() if before and not replace else {}), **change})
        faults += found
        if pool is not None:
            if replace and pool.name in new:
                faults.append(Fault(f"two pools are named {pool.name}", "name"))
            new[pool.name] = pool
    if not faults:
        # A processor that is missing here but was accepted before is no reason to refuse a change of another pool.
        kept = {pool.processor for name, pool in old.items() if name in new and pool.processor}
        faults = judge_pools(list(new.values()), {*processors, *kept})
    if faults:
        raise PoolInvalidError(faults)
    await _write(connection, old, new, reroute=reroute)
    return await list_pools(connection)


async def _write(
    connection: Connection, old: Mapping[str, Pool], new: Mapping[str, Pool], *, reroute: bool
) -> None:
    gone = [name for name in old if name not in new]
    catch_all = next(name for name, pool in new.items() if not pool.matches)
    moved = []
    if gone:
        moved = await store.pools.move_jobs.rows(connection, names=gone, to_pool=catch_all)
        await store.pools.drop_pools.run(connection, names=gone)
    # The catch-all is written last, so that two never stand side by side within the transaction.
    for pool in sorted(new.values(), key=lambda pool: not pool.matches):
        await store.pools.put_pool.run(connection, **pool.as_dict())
    if moved and reroute:
        await store.pools.route_jobs.run(connection, ids=[row["id"] for row in moved])
    await store.pools.announce_pools.value(connection)
