"""Finds processors by name among the entry points of the group `mediamill.processors`.

Built-in processors are declared there too, so they load exactly as a plugin does.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from importlib.metadata import Distribution, EntryPoint, entry_points
from typing import Any

from mediamill.errors import NotFoundError
from mediamill.processors.contract import Processor
from mediamill.processors.load import load_declared

GROUP = "mediamill.processors"


class UnknownProcessorError(NotFoundError):
    """There is no processor of this name."""

    code = "unknown_processor"


def declared(group: str) -> tuple[EntryPoint, ...]:
    """What installed packages declare, ours first; read again when one was installed or removed meanwhile."""
    return _read_declared(group, tuple((place, _changed_at(place)) for place in sys.path))


@lru_cache(maxsize=8)  # it opens a file of every package, and reads that of each which declares something
def _read_declared(group: str, _places: tuple[tuple[str, int], ...]) -> tuple[EntryPoint, ...]:
    return tuple(sorted(entry_points(group=group), key=is_ours, reverse=True))


def _changed_at(place: str) -> int:
    try:
        return os.stat(place or ".").st_mtime_ns  # noqa: PTH116 - for every pool and job kind
    except OSError:
        return 0


def is_ours(point: EntryPoint) -> bool:
    """Is it declared by mediamill itself?"""
    return point.dist is not None and _name_of(point.dist) == "mediamill"


@lru_cache(maxsize=256)  # it parses a file, for each entry point anew
def _name_of(package: Distribution) -> str:
    return package.name


def processor_names() -> list[str]:
    """The names of all processors that are installed, sorted."""
    return sorted({point.name for point in declared(GROUP)})


def find_processor(name: str) -> EntryPoint:
    """Where the processor of this name is declared, without importing it. The name of its class will do too.

    A plugin cannot take a name of ours.
    """
    for point in declared(GROUP):
        if name in (point.name, point.attr):
            return point
    raise _unknown(name)


def runs_programs(point: EntryPoint) -> bool:
    """Does it run programs of the system? It says so where it is declared: `name = "module:Class [programs]"`."""
    return "programs" in point.extras


def plugins_with_programs() -> list[str]:
    """The names of the processors of plugins that run some."""
    found = (point for point in declared(GROUP) if not is_ours(point))
    return sorted(point.name for point in found if runs_programs(point))


def with_processor_name(definition: Mapping[str, Any]) -> Mapping[str, Any]:
    """The definition of a pool, whose processor may be given by the name of its class, with its own name."""
    given = definition.get("processor")
    if not isinstance(given, str):
        return definition
    names = {point.attr: point.name for point in declared(GROUP)}
    return {**definition, "processor": names[given]} if given in names else definition


def load_processor(name: str, mime_types: Sequence[str] = (), timeout_seconds: float = 60) -> Processor:
    """Import the processor of this name and make one for a pool with these types and this time limit."""
    return load_declared(name, find_processor(name).value, mime_types, timeout_seconds)


def _unknown(name: str) -> UnknownProcessorError:
    names = processor_names()
    near = get_close_matches(name, names, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    known = ", ".join(names) or "none"
    return UnknownProcessorError(f"there is no processor {name!r}{hint}", fix=f"Use one of: {known}.")
