"""The bench's own PostgreSQL 18 from the wheel: durable, tuned alike for all, a database per measurement."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from bench.engine.sql import execute, fetch_row
from bench.superuser import superuser_url
from mediamill.db.embedded import EmbeddedServer

# What a drain needs not to be disturbed by checkpoints and vacuum. Durability is not traded: see DURABLE.
SETTINGS = {
    "max_connections": "200",
    "shared_buffers": "512MB",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "15min",
    "autovacuum_naptime": "10s",
}
DURABLE = ("fsync", "full_page_writes", "synchronous_commit")


@contextmanager
def running_server(folder: Path) -> Iterator[str]:
    """Run the server in `folder` for the length of the block; gives the address of its first database."""
    folder.mkdir(parents=True, exist_ok=True)
    url, stop = _start(folder)
    try:
        if not _is_tuned(url):
            _tune(url)
            stop()  # shared_buffers and max_connections need a new start
            url, stop = _start(folder)
        _check(url)
        yield url
    finally:
        stop()


def _start(folder: Path) -> tuple[str, Callable[[], None]]:
    use = EmbeddedServer(data_folder=folder).start()
    return superuser_url(use.url, folder), use.close


def _is_tuned(url: str) -> bool:
    return _show(url, *SETTINGS) == SETTINGS


def _tune(url: str) -> None:
    execute(url, *(f"alter system set {name} = '{value}'" for name, value in SETTINGS.items()))


def _check(url: str) -> None:
    """Refuse to measure a server that is not what the report will say."""
    wanted = {**dict.fromkeys(DURABLE, "on"), **SETTINGS}
    found = _show(url, *wanted)
    if wrong := [name for name in wanted if found[name] != wanted[name]]:
        raise SystemExit(f"the bench server does not run with the bench's settings: {', '.join(wrong)}")


def describe_server(url: str) -> dict[str, str]:
    """Version and the settings that the figures depend on."""
    return _show(url, "server_version", *DURABLE, *SETTINGS)


def _show(url: str, *names: str) -> dict[str, str]:
    asked = ", ".join(f"current_setting('{name}') as {name}" for name in names)
    return dict(fetch_row(url, f"select {asked}"))


@contextmanager
def fresh_database(server_url: str, name: str) -> Iterator[str]:
    """An empty database, dropped at the end so that its vacuum does not fall into the next measurement."""
    drop = f'drop database if exists "{name}" with (force)'
    execute(server_url, drop, f'create database "{name}"')
    try:
        yield urlsplit(server_url)._replace(path=f"/{name}").geturl()
    finally:
        execute(server_url, drop)
