"""`mediamill workers`: who works, and telling them what to do."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mediamill.cli.options import Json, examples
from mediamill.cli.session import run
from mediamill.cli.terminal import (
    ago,
    clock,
    one_line,
    plural,
    print_json,
    print_table,
    say,
    size,
    styled,
    warn,
)
from mediamill.engine.model import Command
from mediamill.errors import InvalidError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mediamill.app import App
    from mediamill.db.connection import Connection

    Act = Callable[[Connection, int], Awaitable[object]]

app = typer.Typer(no_args_is_help=True, help="See the workers, tell them what to do, give them keys.")

COLUMNS = (">id", "~name", "state", "type", "~host", "~pools", "gpu", ">heard ago", ">job", "told")
Who = Annotated[
    list[str] | None, typer.Argument(metavar="WORKER…", help="Ids or names of workers.", show_default=False)
]
AllWorkers = Annotated[bool, typer.Option("--all", help="Every worker that is not offline.")]


@app.command("list", epilog=examples("mediamill workers list", "mediamill workers list --all --json"))
def list_workers(
    all_: Annotated[bool, typer.Option("--all", help="Also those gone for more than an hour.")] = False,
    json: Json = False,
) -> None:
    """Workers and what they do."""

    async def story(opened: App) -> list[dict[str, Any]]:
        from mediamill.engine import workers

        async with opened.database.connection() as connection:
            return await workers.list_workers(connection, all_=all_)

    found = run(story)
    if json:
        print_json(found)
    else:
        print_table(COLUMNS, [_row(worker) for worker in found], "no workers; `mediamill up` starts some")


def _row(worker: dict[str, Any]) -> list[Any]:
    return [
        worker["id"],
        one_line(worker["name"], 32),
        styled(worker["state"]),
        worker["type"],
        one_line(worker["hostname"], 24),
        one_line(", ".join(worker["pools"]) or "all", 32),
        "yes" if worker["gpu"] else "",
        ago(worker["heartbeat_at"]) or "never",
        worker["current_job_id"],
        worker["command"],
    ]


@app.command("pause", epilog=examples("mediamill workers pause 3", "mediamill workers pause --all"))
def pause(who: Who = None, all_: AllWorkers = False, json: Json = False) -> None:
    """Let workers finish what they have, and claim no more."""
    _command(who, all_, json, Command.PAUSE)


@app.command("resume", epilog=examples("mediamill workers resume 3"))
def resume(who: Who = None, all_: AllWorkers = False, json: Json = False) -> None:
    """Let paused workers claim again."""
    _command(who, all_, json, Command.RESUME)


@app.command("shutdown", epilog=examples("mediamill workers shutdown 3"))
def shutdown(who: Who = None, all_: AllWorkers = False, json: Json = False) -> None:
    """Let workers finish what they have, and exit."""
    _command(who, all_, json, Command.SHUTDOWN)


@app.command("dump", epilog=examples("mediamill workers dump 3", "mediamill workers dump --all"))
def dump(who: Who = None, all_: AllWorkers = False, json: Json = False) -> None:
    """Let workers write their flight log: their last log entries, to logs/forensics there, and a copy home."""
    _command(who, all_, json, Command.FORENSIC_DUMP)
    if not json:
        say("`mediamill workers dumps` lists what has come")


@app.command("dumps", epilog=examples("mediamill workers dumps", "mediamill workers dumps 12 | less"))
def dumps(
    id_: Annotated[
        int | None, typer.Argument(metavar="ID", help="Print this one.", show_default=False, min=1)
    ] = None,
    json: Json = False,
) -> None:
    """Flight logs that workers have written, here and on other machines; or the text of one."""

    async def story(opened: App) -> Any:
        from mediamill.engine import flight_dumps

        async with opened.database.connection() as connection:
            if id_ is None:
                return await flight_dumps.list_dumps(connection)
            return await flight_dumps.read_dump(connection, id_)

    found = run(story)
    if id_ is not None:
        from mediamill.engine.flight_dumps import unpack

        for piece in unpack(found[1]):
            sys.stdout.buffer.write(piece)
    elif json:
        print_json(found)
    else:
        print_table(
            (">id", "~worker", ">worker id", "taken", ">size"),
            [
                [
                    each["id"],
                    each["worker_name"],
                    each["worker_id"],
                    clock(each["taken_at"]),
                    size(each["bytes"]),
                ]
                for each in found
            ],
            "no flight logs; `mediamill workers dump WORKER` asks for one",
        )


@app.command("disable", epilog=examples("mediamill workers disable gpu-1"))
def disable(who: Who = None, all_: AllWorkers = False, json: Json = False) -> None:
    """Let workers finish what they hold, and give them no more jobs until they are enabled."""
    from mediamill.engine.workers import disable_worker

    _each(who, all_, json, disable_worker, "disabled")


@app.command("enable", epilog=examples("mediamill workers enable gpu-1"))
def enable(who: Who = None, all_: AllWorkers = False, json: Json = False) -> None:
    """Let disabled workers have jobs again, from their next heartbeat on."""
    from mediamill.engine.workers import enable_worker

    _each(who, all_, json, enable_worker, "enabled")


@app.command(
    "register", epilog=examples("mediamill workers register gpu-1", "mediamill workers register gpu-1 --gpu")
)
def register(
    name: Annotated[str, typer.Argument(help="Its name.", show_default=False)],
    pools: Annotated[
        list[str] | None, typer.Option("--pool", help="A pool that it serves; may be repeated.")
    ] = None,
    gpu: Annotated[bool, typer.Option("--gpu", help="It has a GPU.")] = False,
    json: Json = False,
) -> None:
    """Make a remote worker known. Its key is shown now and never again."""
    if not name.strip():
        raise InvalidError("a worker needs a name")

    async def story(opened: App) -> tuple[int, str]:
        from mediamill.engine import workers

        async with opened.database.transaction() as connection:
            id_ = await workers.register_worker(
                connection,
                name=name,
                type_="remote",
                pools=pools or (),
                capabilities={"gpu": True} if gpu else {},
            )
            return id_, await workers.issue_key(connection, id_)

    id_, key = run(story)
    if json:
        print_json({"id": id_, "name": name, "key": key})
        return
    say(f"worker {id_} ({name}) is registered. Its key, shown only this once:")
    say(key, style="bold")
    say("on its machine: MEDIAMILL_WORKER_KEY=… mediamill worker --server URL")


@app.command("revoke", epilog=examples("mediamill workers revoke gpu-1"))
def revoke(who: Who = None, all_: AllWorkers = False, json: Json = False) -> None:
    """Make the keys of workers useless."""
    from mediamill.engine.workers import revoke_keys

    _each(who, all_, json, revoke_keys, "left without a key")


def _command(who: list[str] | None, all_: bool, json: bool, command: Command) -> None:
    from mediamill.engine.workers import give_command

    async def act(connection: Connection, worker_id: int) -> None:
        await give_command(connection, worker_id, command)

    told = f"told: {command.value.replace('_', ' ')}"
    for worker in _each(who, all_, json, act, told):
        if worker["state"] in ("offline", "disabled"):
            warn(f"{worker['name']} is {worker['state']}: it hears this when it is back", style="yellow")


def _each(who: list[str] | None, all_: bool, json: bool, act: Act, done: str) -> list[dict[str, Any]]:
    """Do something to each worker that is named, in one transaction: all of them or none."""
    if bool(who) == all_:
        raise InvalidError(
            "name workers by id or name, or say --all", fix="mediamill workers list shows them"
        )

    async def story(opened: App) -> list[dict[str, Any]]:
        async with opened.database.transaction() as connection:
            chosen = await _choose(connection, who)
            for worker in chosen:
                await act(connection, worker["id"])
            return chosen

    chosen = run(story)
    if json:
        print_json([{"id": worker["id"], "name": worker["name"]} for worker in chosen])
        return chosen
    names = ", ".join(f"{worker['name']} ({worker['id']})" for worker in chosen)
    say(f"{plural(len(chosen), 'worker')} {done}: {names}" if chosen else "there are no workers")
    return chosen


async def _choose(connection: Connection, who: list[str] | None) -> list[dict[str, Any]]:
    from mediamill.engine.workers import find_worker, list_workers

    known = {worker["id"]: worker for worker in await list_workers(connection, all_=True)}
    if who:
        ids = [await find_worker(connection, each) for each in who]
        return [known[id_] for id_ in dict.fromkeys(ids)]
    return [worker for worker in known.values() if worker["state"] != "offline"]
