"""Which route a request will reach, before it is let through: found by the routes' own patterns, in their own order."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from starlette.routing import Mount
from starlette.types import Scope

FILE_METHODS = frozenset({"GET", "HEAD"})  # of a mount, which serves files


@dataclass(frozen=True, slots=True)
class Known:
    """One route: `methods` is empty where it takes them all."""

    path: str
    pattern: re.Pattern[str]
    methods: frozenset[str]
    mount: bool


@dataclass(frozen=True, slots=True)
class Reached:
    """The route of a request: method and path as they were declared, and what stands in the path's places.

    A file below a mount may be declared by its own path: that is the first of the names.
    """

    names: tuple[str, ...]
    places: tuple[str, ...]


class RouteMap:
    """The routes of one application, read again when some were added."""

    def __init__(self) -> None:
        self._count = -1
        self._routes: list[Known] = []

    def find(self, scope: Scope) -> Reached | None:
        """Where this goes; None if no route takes it."""
        server: FastAPI = scope["app"]
        if len(server.routes) != self._count:
            self._routes, self._count = list(known_routes(server)), len(server.routes)
        path = scope["path"]
        method = scope["method"] if scope["type"] == "http" else "WEBSOCKET"
        for route in self._routes:
            if (not route.methods or method in route.methods) and (match := route.pattern.match(path)):
                name = f"{method} {route.path}"
                return Reached((f"{method} {path}", name) if route.mount else (name,), match.groups())
        return None


def known_routes(server: FastAPI) -> Iterator[Known]:
    """Each of the application's, those of included routers too."""
    for route in iter_route_contexts(server.routes):
        mount = isinstance(route.original_route, Mount)
        websocket = not mount and route.methods is None
        methods = frozenset({"WEBSOCKET"} if websocket else route.methods or ())
        yield Known(route.path or "", route.path_regex, methods, mount)


def methods_of(server: FastAPI, path: str) -> set[str]:
    """Of HTTP, those that any route takes at this path."""
    found = (
        FILE_METHODS if route.mount else route.methods
        for route in known_routes(server)
        if route.pattern.match(path)
    )
    return set[str]().union(*found) - {"WEBSOCKET"}


def declared_names(server: FastAPI) -> list[str]:
    """Method and path of every route; a mount serves files, which are got."""
    return [
        f"{method} {route.path}"
        for route in known_routes(server)
        for method in sorted(route.methods or {"GET"})
    ]
