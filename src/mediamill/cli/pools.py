"""`mediamill pools`: show, set and drop the definitions that live in the database."""

from __future__ import annotations

import json as json_format
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mediamill.cli.options import Json, Yes, confirm, examples
from mediamill.cli.session import run
from mediamill.cli.terminal import ago, coarse, one_line, print_fields, print_json, print_table, say, size
from mediamill.errors import InvalidError, NotFoundError

if TYPE_CHECKING:
    from mediamill.app import App

app = typer.Typer(no_args_is_help=True, help="Which jobs go together, how many at once, how long, how often.")

COLUMNS = (
    "pool",
    "~takes",
    "processor",
    ">at once",
    ">limit",
    ">tries",
    ">lease",
    ">queued",
    ">running",
    ">oldest",
)
NOTHING = ("", "none", "null")


@app.command("show", epilog=examples("mediamill pools show", "mediamill pools show default"))
def show_pools(
    name: Annotated[
        str | None, typer.Argument(help="One pool, with all its settings.", show_default=False)
    ] = None,
    json: Json = False,
) -> None:
    """Pools with their settings and depths."""

    async def story(opened: App) -> list[dict[str, Any]]:
        from mediamill.engine.pools import list_pools
        from mediamill.engine.watch import pool_depths

        async with opened.database.connection() as connection:
            depths = {row["pool"]: row for row in await pool_depths(connection)}
            pools = await list_pools(connection)
        return [
            {**pool.as_dict(), "depth": {**depths.get(pool.name, {}), "pool": pool.name}} for pool in pools
        ]

    pools = run(story)
    if name is not None:
        pools = [_named(pools, name)]
    if json:
        print_json(pools if name is None else pools[0])
    elif name is not None:
        print_fields(_fields(pools[0]))
    else:
        print_table(COLUMNS, [_row(pool) for pool in pools], "no pools")


def _named(pools: list[dict[str, Any]], name: str) -> dict[str, Any]:
    for pool in pools:
        if pool["name"] == name:
            return pool
    there = ", ".join(pool["name"] for pool in pools)
    raise NotFoundError(f"there is no pool named {name}", fix=f"there are {there}")


def _row(pool: dict[str, Any]) -> list[Any]:
    depth = pool["depth"]
    return [
        pool["name"],
        one_line(", ".join(pool["matches"]) or "all else", 40),
        pool["processor"],
        pool["concurrency"],
        coarse(pool["timeout_seconds"]),
        pool["max_attempts"] if pool["retry"] else "1 (no retry)",
        coarse(pool["lease_seconds"]),
        depth.get("queued", 0),
        depth.get("running", 0),
        ago(depth.get("oldest_at")),
    ]


def _fields(pool: dict[str, Any]) -> dict[str, Any]:
    depth = pool["depth"]
    shown = {name: value for name, value in pool.items() if name != "depth"}
    shown["matches"] = ", ".join(pool["matches"]) or "(all else: the catch-all)"
    shown["processor"] = pool["processor"] or "(none: only kinds that run inside the worker)"
    shown["memory_bytes"] = f"{pool['memory_bytes']} ({size(pool['memory_bytes'])})"
    states = ("queued", "scheduled", "running", "held", "completed")
    return {**shown, "jobs": ", ".join(f"{depth.get(state, 0)} {state}" for state in states)}


@app.command(
    "set",
    epilog=examples(
        "mediamill pools set default concurrency=8 timeout_seconds=120",
        "mediamill pools set video matches=video/mp4,video/quicktime processor=scripted lease_seconds=1800",
        "mediamill pools set --file pools.json --replace",
    ),
)
def set_pools(
    name: Annotated[
        str | None, typer.Argument(help="The pool; a new name makes a new pool.", show_default=False)
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE…", help="What to change.", show_default=False)
    ] = None,
    file: Annotated[Path | None, typer.Option(help="A JSON list of pools instead; - is stdin.")] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="With --file: drop the pools that it does not name.")
    ] = False,
    json: Json = False,
) -> None:
    """Change pools, or make new ones. All of it or nothing: a faulty definition leaves the old ones in force."""
    if (name is None) == (file is None) or (replace and file is None):
        raise InvalidError("name a pool with key=value, or say --file (and then --replace)", fix="see --help")
    changes = read_file(file) if file is not None else [{"name": name, **read_settings(settings or [])}]
    _change(changes, json, "set", replace=replace)


@app.command("drop", epilog=examples("mediamill pools drop video"))
def drop_pool(
    name: Annotated[str, typer.Argument(help="The pool.", show_default=False)],
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Drop a pool; its waiting jobs go to the catch-all."""
    confirm(f"Drop the pool {name}?", yes)
    _change([], json, "dropped", drop=[name])


def _change(changes: list[dict[str, Any]], json: bool, done: str, **how: Any) -> None:
    async def story(opened: App) -> list[dict[str, Any]]:
        from mediamill.engine.pools import set_pools
        from mediamill.processors.registry import processor_names, with_processor_name

        named = [with_processor_name(change) for change in changes]
        async with opened.database.transaction() as connection:
            pools = await set_pools(connection, named, processor_names(), **how)
        return [pool.as_dict() for pool in pools]

    pools = run(story)
    names = [str(change["name"]) for change in changes] or how.get("drop", [])
    print_json(pools) if json else say(f"{done}: {', '.join(names)}; workers go by it from now on")


def read_settings(given: list[str]) -> dict[str, Any]:
    """`key=value` words; every one that cannot be read is named."""
    values: dict[str, Any] = {}
    faults = []
    for word in given:
        key, equals, value = word.partition("=")
        if not equals or not key:
            faults.append(f"{word!r} is not of the form key=value")
        elif key in values or key == "name":
            faults.append(f"{key} is given twice")
        else:
            values[key] = _value(key, value)
    if faults or not values:
        raise InvalidError(
            "; ".join(faults) or "nothing to change", fix="write it like concurrency=4 matches=a,b"
        )
    return values


def _value(key: str, text: str) -> Any:
    """Lists by commas, the rest as JSON if it is any; what does not fit is refused by the engine, by name."""
    if key == "matches":
        return [part.strip() for part in text.strip("[]").split(",") if part.strip()]
    if key == "processor":
        return None if text in NOTHING else text
    try:
        return json_format.loads(text)
    except ValueError:
        return text


def read_file(path: Path) -> list[dict[str, Any]]:
    """A list of definitions, as `pools show --json` prints them (depths are left out)."""
    try:
        text = typer.get_text_stream("stdin").read() if str(path) == "-" else path.read_text()
        found = json_format.loads(text)
    except OSError as error:
        raise InvalidError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InvalidError(f"{path} is not JSON: {error}") from None
    if isinstance(found, dict):
        found = [found]
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found) or not found:
        raise InvalidError(
            f"{path} must hold a JSON list of pools", fix="mediamill pools show --json prints one"
        )
    return [{key: value for key, value in each.items() if key != "depth"} for each in found]
