"""What installed packages bring, by entry point: processors, job kinds, chat networks.

Whatever cannot be loaded is left out and told of; everything else goes on. Ours have their names first. Processors are
loaded where they run, in child processes (see processors.registry); kinds and chat networks run beside the database.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import Any

from mediamill.conversations.provider import ProviderFactory
from mediamill.engine.kinds import JobKind, Kinds
from mediamill.errors import InvalidError
from mediamill.processors import registry

log = logging.getLogger(__name__)

KINDS = "mediamill.kinds"
PROVIDERS = "mediamill.providers"
SORTS = {registry.GROUP: "processor", KINDS: "job kind", PROVIDERS: "chat network"}


@dataclass(frozen=True, slots=True)
class Plugin:
    """One thing that a package brings, and why it is left out, if it is."""

    sort: str
    name: str
    package: str
    version: str
    fault: str | None = None


def add_kinds(kinds: Kinds) -> list[Plugin]:
    """Add the kinds of plugins to ours."""

    def add(made: Any) -> None:
        if not isinstance(made, JobKind):
            raise InvalidError(f"it is a {type(made).__name__}, and should be a JobKind")
        if not made.description.strip():
            raise InvalidError("its description is empty")
        kinds.add(made)

    return [_take(point, add) for point in _points(KINDS)]


def add_providers(factories: dict[str, ProviderFactory]) -> list[Plugin]:
    """Add the chat networks of plugins to ours."""
    found = []
    for point in _points(PROVIDERS):

        def add(made: Any, name: str = point.name) -> None:
            _check_free(name, factories)
            if not callable(made):
                raise InvalidError(f"it is a {type(made).__name__}, and should be called with a BotContext")
            factories[name] = made

        found.append(_take(point, add))
    return found


def list_plugins(kinds: Kinds, providers: Collection[str]) -> list[Plugin]:
    """Everything that packages bring, each loaded once; `kinds` and `providers` are ours alone."""

    def check_processor(point: EntryPoint) -> Callable[[Any], None]:
        def check(made: Any) -> None:
            if registry.find_processor(point.name) != point:
                raise InvalidError(f"the name {point.name} is taken")
            if not callable(made):
                raise InvalidError(f"it is a {type(made).__name__}, and should be a class")

        return check

    processors = [_take(point, check_processor(point)) for point in _points(registry.GROUP)]
    factories: dict[str, ProviderFactory] = dict.fromkeys(providers, _nothing)
    return [*processors, *add_kinds(kinds), *add_providers(factories)]


def tell(found: Collection[Plugin]) -> None:
    """One line in the log for each that was left out."""
    for plugin in found:
        if plugin.fault is not None:
            log.error(
                "the %s %s of the package %s is left out: %s",
                plugin.sort,
                plugin.name,
                plugin.package,
                plugin.fault,
            )


def _points(group: str) -> Iterator[EntryPoint]:
    """Those of other packages than ours, in an order that does not depend on the disk."""
    points = [point for point in registry.declared(group) if not registry.is_ours(point)]
    yield from sorted(points, key=lambda point: (point.name, point.value))


def _take(point: EntryPoint, use: Callable[[Any], None]) -> Plugin:
    """Load it and use it; whatever it does wrong stays with it."""
    fault = None
    try:
        use(point.load())
    except InvalidError as error:
        fault = error.message
    except (Exception, SystemExit) as error:  # code of strangers: a module may even try to end the process
        fault = f"{point.value} cannot be loaded: {type(error).__name__}: {error}"
    package, version = (point.dist.name, point.dist.version) if point.dist else ("?", "?")
    return Plugin(SORTS[point.group], point.name, package, version, fault)


def _check_free(name: str, taken: Mapping[str, Any]) -> None:
    if name in taken:
        raise InvalidError(f"the name {name} is taken")


def _nothing(context: Any) -> Any:
    """Stands for a chat network of which only the name counts."""
    raise NotImplementedError(context)
