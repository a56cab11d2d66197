"""The document `_mediaProcessorDefinitions`: another door to the pools of media, not another truth.

It is read off the pools and applied to them. What it cannot say (tries, leases, memory) stays as it is; job kinds
that a pool serves beside mime types stay too. Its catch-all is the pool of `*/*`; the engine keeps its own for jobs
without a type.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mediamill.db.connection import Connection
from mediamill.engine.pools import Pool, PoolInvalidError, list_pools, lock_pools, set_pools
from mediamill.errors import InvalidError, NotFoundError
from mediamill.processors.registry import find_processor, processor_names
from mediamill.processors.types import AUDIO, DOCUMENT, IMAGE, STICKER, VIDEO

NAME: Final = "_mediaProcessorDefinitions"
ANY_TYPE: Final = "*/*"
TYPES, CLASS, AT_ONCE, LIMIT = (
    "mimeTypes",
    "processorClass",
    "concurrentProcessingPoolSize",
    "processingTimeoutSeconds",
)
DEFAULT_LIMIT_SECONDS = 60
MOST_AT_ONCE = 10_000
LONGEST_SECONDS = 7 * 86_400
# What a pool gets that is new, and whose processor no pool had before.
NEW_POOL: Mapping[str, Any] = {"max_attempts": 1, "memory_bytes": 2 * 1024**3}
_TYPE = re.compile(r"[a-z0-9.+-]{1,63}/([a-z0-9.+_-]{1,127}|\*)")
_CORRUPT = re.compile(r"media_corrupt_[a-z]{1,20}")
_CORRUPT_KINDS = ("image", "video", "audio", "document", "sticker")


class BadDefinitionsError(InvalidError):
    """The definitions of media processors are not valid."""

    code = "bad_configuration"

    def __init__(self, faults: Sequence[str]) -> None:
        self.faults = list(faults)
        super().__init__("; ".join(faults), fix="nothing was changed; correct the document and set it again")


@dataclass(frozen=True, slots=True)
class Definition:
    """One entry of the document; no types: the catch-all."""

    types: frozenset[str]
    processor: str
    at_once: int
    limit_seconds: float

    @property
    def matches(self) -> list[str]:
        """As the pools say it."""
        return sorted(self.types) or [ANY_TYPE]


def default_definitions() -> list[dict[str, Any]]:
    """What a new installation has."""
    corrupt = [f"media_corrupt_{kind}" for kind in _CORRUPT_KINDS]
    rows: tuple[tuple[Sequence[str], str, int, int], ...] = (
        (AUDIO, "audio", 2, 300),
        (VIDEO, "video", 1, 600),
        (IMAGE, "image", 3, 120),
        (DOCUMENT, "document", 2, 120),
        (STICKER, "sticker", 2, 60),
        (corrupt, "corrupt", 1, 10),
        ((), "unsupported", 1, 10),
    )
    return [
        {TYPES: list(types), CLASS: _class_of(processor), AT_ONCE: at_once, LIMIT: limit}
        for types, processor, at_once, limit in rows
    ]


async def read_definitions(connection: Connection) -> list[dict[str, Any]]:
    """The document, as the pools are now; the catch-all last."""
    pools = [pool for pool in await list_pools(connection) if _is_for_media(pool)]
    return [
        {
            TYPES: _types_of(pool),
            CLASS: _class_of(str(pool.processor)),
            AT_ONCE: pool.concurrency,
            LIMIT: int(pool.timeout_seconds) if pool.timeout_seconds % 1 == 0 else pool.timeout_seconds,
        }
        for pool in sorted(pools, key=lambda pool: (ANY_TYPE in pool.matches, pool.name))
    ]


async def apply_definitions(connection: Connection, document: Any) -> None:
    """The pools of media as the document says, all of it or nothing. BadDefinitionsError has every fault."""
    wanted = _read(document)
    await lock_pools(connection)
    pools = await list_pools(connection)
    media = [pool for pool in pools if _is_for_media(pool)]
    homes = _find_homes(wanted, media)
    taken = {pool.name for pool in pools}
    changes = [_change(each, home, media, taken) for each, home in zip(wanted, homes, strict=True)]
    left = [pool for pool in media if pool not in homes]
    changes += [{"name": pool.name, "matches": kinds} for pool in left if (kinds := _kinds_of(pool))]
    drop = [pool.name for pool in left if not _kinds_of(pool)]
    try:
        # The engine's own catch-all has no processor: media that wait must not end up there.
        await set_pools(connection, changes, processor_names(), drop=drop, reroute=True)
    except PoolInvalidError as error:
        raise BadDefinitionsError(error.faults) from None


def _find_homes(wanted: Sequence[Definition], media: Sequence[Pool]) -> list[Pool | None]:
    """For each definition the pool that it is about: of the same types, else of the most of them, else none."""
    homes: list[Pool | None] = [None] * len(wanted)
    free = list(media)
    alike = sorted(
        (
            (-_likeness(definition, pool), number, place)
            for number, definition in enumerate(wanted)
            for place, pool in enumerate(media)
            if _likeness(definition, pool)
        )
    )
    for _, number, place in alike:
        if homes[number] is None and media[place] in free:
            homes[number] = media[place]
            free.remove(media[place])
    return homes


def _likeness(definition: Definition, pool: Pool) -> float:
    mine, its = set(definition.matches), {match for match in pool.matches if _is_type(match)}
    return len(mine & its) / len(mine | its)


def _change(
    definition: Definition, home: Pool | None, media: Sequence[Pool], taken: set[str]
) -> dict[str, Any]:
    said = {
        "processor": definition.processor,
        "concurrency": definition.at_once,
        "timeout_seconds": definition.limit_seconds,
    }
    if home is not None:
        return {"name": home.name, **said, "matches": [*_kinds_of(home), *definition.matches]}
    like = next((pool.as_dict() for pool in media if pool.processor == definition.processor), NEW_POOL)
    name = _new_name(definition, taken)
    taken.add(name)
    return {**like, "name": name, **said, "matches": definition.matches}


def _new_name(definition: Definition, taken: set[str]) -> str:
    families = {match.partition("/")[0] for match in definition.types if "/" in match}
    first = families.pop() if len(families) == 1 else definition.processor
    return next(
        name
        for number in range(1, len(taken) + 2)
        if (name := f"{first}-{number}" if number > 1 else first) not in taken
    )


def _read(document: Any) -> list[Definition]:
    if not isinstance(document, list) or not all(isinstance(each, dict) for each in document):
        raise BadDefinitionsError(["the document must be a list of definitions"])
    faults = [
        f"definition {number}: {fault}" for number, each in enumerate(document, 1) for fault in _faults(each)
    ]
    faults += _faults_together([each[TYPES] for each in document if not _type_faults(each)], len(document))
    if faults:
        raise BadDefinitionsError(faults)
    return [
        Definition(
            frozenset(each[TYPES]),
            find_processor(each[CLASS]).name,
            each[AT_ONCE],
            each.get(LIMIT, DEFAULT_LIMIT_SECONDS),
        )
        for each in document
    ]


def _faults(given: Mapping[str, Any]) -> list[str]:
    known = (TYPES, CLASS, AT_ONCE, LIMIT)
    faults = [f"there is no {key!r}; there are {', '.join(known)}" for key in given if key not in known]
    faults += _type_faults(given)
    try:
        find_processor(str(given.get(CLASS, "")))
    except NotFoundError as error:
        faults.append(f"{CLASS}: {error.message}. {error.fix}")
    at_once, limit = given.get(AT_ONCE), given.get(LIMIT, DEFAULT_LIMIT_SECONDS)
    if type(at_once) is not int or not 1 <= at_once <= MOST_AT_ONCE:
        faults.append(f"{AT_ONCE} must be a whole number from 1 to {MOST_AT_ONCE}, not {at_once!r}")
    if type(limit) not in (int, float) or not 0 < limit <= LONGEST_SECONDS:
        faults.append(f"{LIMIT} must be a number of seconds up to {LONGEST_SECONDS}, not {limit!r}")
    return faults


def _type_faults(given: Mapping[str, Any]) -> list[str]:
    types = given.get(TYPES)
    if not isinstance(types, list):
        return [f"{TYPES} must be a list, empty for the catch-all"]
    return [
        f"{each!r} is no mime type"
        for each in types
        if not isinstance(each, str) or each == ANY_TYPE or not _is_type(each)
    ]


def _faults_together(lists: Sequence[list[str]], count: int) -> list[str]:
    everything = [each for types in lists for each in types]
    faults = [
        f"{each} is named twice"
        for each in sorted({each for each in everything if everything.count(each) > 1})
    ]
    catch_alls = sum(not types for types in lists)
    if catch_alls != 1 and len(lists) == count:  # else the missing one may be among those that cannot be read
        faults.append(f"exactly one definition must be the catch-all with {TYPES} [], not {catch_alls}")
    return faults


def _is_type(match: str) -> bool:
    return match == ANY_TYPE or bool(_TYPE.fullmatch(match) or _CORRUPT.fullmatch(match))


def _is_for_media(pool: Pool) -> bool:
    return pool.processor is not None and any(_is_type(match) for match in pool.matches)


def _types_of(pool: Pool) -> list[str]:
    return [] if ANY_TYPE in pool.matches else [match for match in pool.matches if _is_type(match)]


def _kinds_of(pool: Pool) -> list[str]:
    return [match for match in pool.matches if not _is_type(match)]


def _class_of(processor: str) -> str:
    """The name of the class; of a processor that is not installed any more, its own name."""
    try:
        return find_processor(processor).attr
    except NotFoundError:
        return processor
