"""`mediamill check`: every fault of the configuration at once, each with its fix."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from mediamill.cli.options import Json, examples
from mediamill.cli.terminal import clean, draw, plural, print_json, say, styled

if TYPE_CHECKING:
    from mediamill.cli.findings import Finding
    from mediamill.db.connection import Database
    from mediamill.settings import Settings

# Folders of the data folder whose files a bucket takes the place of.
LASTING = ("uploads", "videos", "derivatives", "libraries", "intake/files", "intake/outputs")
MOVE = "bring them there: mediamill storage move bucket --delete; or unset MEDIAMILL_BUCKET"
EXAMPLES = examples("mediamill check", "mediamill check --json")


def check(json: Json = False) -> None:
    """Find every fault of the configuration, with its fix.

    Exit code 1 if there is one.
    """
    import asyncio

    findings = asyncio.run(find_all())
    faults = [finding for finding in findings if finding.status == "fault"]
    if json:
        print_json({"ok": not faults, "findings": [asdict(finding) for finding in findings]})
    else:
        print_findings(findings)
        say(
            f"\n{plural(len(faults), 'fault')}" if faults else "\nall is well",
            style="red" if faults else "green",
        )
    if faults:
        raise typer.Exit(1)


async def find_all() -> list[Finding]:
    """All findings, in the order in which one would mend them."""
    from mediamill.cli.findings import (
        Finding,
        find_alert_faults,
        find_folder_faults,
        find_model_faults,
        find_plugin_faults,
        find_server_faults,
        find_trace_faults,
        find_unknown_variables,
        read_settings,
    )

    unknown = find_unknown_variables(os.environ)
    settings, bad = read_settings()
    first = [*unknown, *bad] or [Finding("ok", "settings", "every variable is known and good")]
    folder = find_folder_faults(settings.data_folder)
    data_faulty = settings.database_url is None and any(each.status == "fault" for each in folder)
    database = [] if data_faulty else await find_database_faults(settings)
    redis = await find_redis_faults(settings)
    beside = [
        *redis,
        *await find_bucket_faults(settings),
        *find_server_faults(settings),
        *await find_sign_on_faults(settings),
        *find_alert_faults(settings),
        *find_trace_faults(settings),
        *find_model_faults(settings),
        *find_plugin_faults(settings),
    ]
    return [*first, *folder, *database, *beside]


async def find_database_faults(settings: Settings) -> list[Finding]:
    """Does the database answer, is it new enough, and does it hold what this version wants?"""
    from mediamill.cli.faults import explain
    from mediamill.cli.findings import Finding
    from mediamill.cli.session import opened_database

    if not has_database(settings):
        return [Finding("ok", "database", "embedded; it will be made at the first start")]
    try:
        async with opened_database(settings) as database:
            return await _look_inside(database, settings)
    except Exception as error:
        return [Finding("fault", "database", fault.message, fault.fix) for fault in explain(error)]


async def find_redis_faults(settings: Settings) -> list[Finding]:
    """Does Redis answer, if it is asked for, and is it new enough?"""
    from mediamill.cli.faults import explain
    from mediamill.cli.findings import Finding

    if settings.queue_mode == "database" or settings.redis_url is None:
        return []
    from mediamill.dispatch.examine import examine_redis

    try:
        facts = await examine_redis(settings.redis_url.get_secret_value(), None)
    except Exception as error:
        return [Finding("fault", "redis", fault.message, fault.fix) for fault in explain(error)]
    return [Finding("ok", "redis", f"{facts['version']}, for the queue mode {settings.queue_mode}")]


async def find_sign_on_faults(settings: Settings) -> list[Finding]:
    """Can anybody log in by single sign-on, if it is set up?"""
    from mediamill.access.single_sign_on import SignOnConfig, SingleSignOn
    from mediamill.cli.findings import Finding, find_sign_on_gaps
    from mediamill.errors import MediamillError

    gaps = find_sign_on_gaps(settings)
    config = SignOnConfig.of(settings)
    if gaps or config is None:
        return gaps
    try:
        await SingleSignOn(config).discover()
    except MediamillError as error:
        return [Finding("fault", "single sign-on", error.message, error.fix)]
    return [Finding("ok", "single sign-on", f"{config.issuer} answers")]


async def find_bucket_faults(settings: Settings) -> list[Finding]:
    """Does the bucket take, give, list and delete, if there is one?"""
    from mediamill.cli.faults import explain
    from mediamill.cli.findings import Finding

    if settings.bucket is None:
        return []
    from mediamill.storage.examine import examine_bucket

    try:
        facts = await examine_bucket(settings, None)
    except Exception as error:
        return [Finding("fault", "bucket", fault.message, fault.fix) for fault in explain(error)]
    told = f"{facts['bucket']} ({facts['server']}) takes, gives, lists and deletes"
    return [Finding("ok", "bucket", told), *_find_left_behind(settings)]


def _find_left_behind(settings: Settings) -> list[Finding]:
    """Files of a time without the bucket, which nobody finds now."""
    from mediamill.cli.findings import Finding

    folders = [name for name in LASTING if any((settings.data_folder / name).rglob("*"))]
    if not folders:
        return []
    what = f"files in {', '.join(folders)} of the data folder are not looked for there while a bucket is set"
    return [Finding("fault", "bucket", what, MOVE)]


def has_database(settings: Settings) -> bool:
    """Is there a database to look at? An embedded one is not made just for looking."""
    return settings.database_url is not None or (settings.data_folder / "postgres").exists()


async def _look_inside(database: Database, settings: Settings) -> list[Finding]:
    from mediamill.cli.findings import Finding, find_bot_faults, find_pool_faults
    from mediamill.conversations.bots import list_bots
    from mediamill.db.connection import is_same_database
    from mediamill.db.migrate import newest_revision, schema_revision
    from mediamill.db.pgvector import vector_support
    from mediamill.engine.pools import list_pools
    from mediamill.engine.watch import database_facts

    async with database.connection() as connection:
        version = (await database_facts(connection))["version"]
        where = "embedded" if settings.database_url is None else "by MEDIAMILL_DATABASE_URL"
        if settings.database_direct_url is not None:
            where += " through a pooler, and by MEDIAMILL_DATABASE_DIRECT_URL"
            if not await is_same_database(database.url, connection):
                fix = "name the same server and database in both"
                told = "MEDIAMILL_DATABASE_URL and MEDIAMILL_DATABASE_DIRECT_URL lead to different databases"
                return [Finding("fault", "database", told, fix)]
        answers = Finding("ok", "database", f"PostgreSQL {version}, {where}")
        support = await vector_support(connection)
        search = Finding("ok" if support.is_ready else "note", "search", support.ways, support.fix)
        found, wanted = await schema_revision(database.url), newest_revision()
        if found == wanted:
            pools = find_pool_faults(await list_pools(connection), settings.worker_pools)
            bots = find_bot_faults(await list_bots(connection))
            return [answers, Finding("ok", "schema", f"up to date ({found})"), search, *pools, *bots]
    if found is None:
        return [answers, Finding("note", "schema", "not made yet; the first start makes it"), search]
    if found < wanted:
        return [
            answers,
            Finding("note", "schema", f"is {found}, wanted is {wanted}; the next start brings it up"),
            search,
        ]
    fix = "install the mediamill that made it, or a newer one"
    return [answers, Finding("fault", "schema", f"is {found}, newer than this mediamill ({wanted})", fix)]


def print_findings(findings: list[Finding]) -> None:
    """A line for each, and its fix below."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    for style in (None, "bold", None):
        grid.add_column(style=style, no_wrap=style == "bold", overflow="fold")
    for finding in findings:
        told = Text(clean(finding.message))
        if finding.fix:
            told.append(f"\n→ {clean(finding.fix)}", style="dim")
        grid.add_row(styled(finding.status), finding.about, told)
    draw(grid)
