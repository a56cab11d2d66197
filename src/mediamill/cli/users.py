"""`mediamill users`: people who log in with a browser, once the server is not for this machine alone."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mediamill.access.model import Scope, in_order
from mediamill.cli.options import Json, Yes, confirm, examples
from mediamill.cli.session import run
from mediamill.cli.terminal import ago, print_json, print_table, say, styled
from mediamill.errors import InvalidError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mediamill.app import App
    from mediamill.db.connection import Connection

    Act = Callable[[Connection, str], Awaitable[object]]

app = typer.Typer(no_args_is_help=True, help="Who may log in, and what they may do.")

COLUMNS = ("~name", "scopes", "state", "second factor", ">sessions", ">tokens", ">seen ago", ">password ago")
Name = Annotated[str, typer.Argument(metavar="NAME", help="The user's name.", show_default=False)]
Scopes = Annotated[
    list[Scope] | None,
    typer.Option(
        "--scope", help="What they may do; may be repeated. Default for a new one: read and ingest."
    ),
]
FromStdin = Annotated[
    bool, typer.Option("--stdin", help="Read the password from stdin instead of asking for it.")
]


@app.command("list", epilog=examples("mediamill users list"))
def list_users(json: Json = False) -> None:
    """Users and what they may do."""

    async def story(opened: App) -> list[dict[str, Any]]:
        from mediamill.access import users

        async with opened.database.connection() as connection:
            return await users.list_users(connection)

    found = run(story)
    if json:
        print_json(found)
    else:
        print_table(COLUMNS, [_row(user) for user in found], "no users; mediamill users add makes one")


def _row(user: dict[str, Any]) -> list[Any]:
    return [
        user["name"],
        ", ".join(in_order(user["scopes"])),
        styled("disabled" if user["disabled_at"] else "active"),
        "on" if user["second_factor"] else "off",
        user["sessions"],
        user["tokens"],
        ago(user["seen_at"]) or "never",
        ago(user["password_at"]) or "none",
    ]


@app.command(
    "add",
    epilog=examples(
        "mediamill users add ann",
        "mediamill users add ci --stdin <password.txt",
        "mediamill users add eve --scope admin",
    ),
)
def add_user(name: Name, scope: Scopes = None, stdin: FromStdin = False, json: Json = False) -> None:
    """Make a user; the password is asked for twice."""
    password = _read_password(stdin)

    async def story(opened: App) -> dict[str, Any]:
        from mediamill.access import users

        scopes = scope or list(users.DEFAULT_SCOPES)
        async with opened.database.transaction() as connection:
            id_ = await users.add_user(connection, name, password, scopes)
        return {"id": id_, "name": name, "scopes": in_order(scopes)}

    made = run(story)
    if json:
        print_json(made)
    else:
        say(f"user {name} can log in; scopes: {', '.join(made['scopes'])}")


@app.command("password", epilog=examples("mediamill users password ann"))
def set_password(name: Name, stdin: FromStdin = False, json: Json = False) -> None:
    """Give a user another password. Their sessions are over."""
    password = _read_password(stdin)

    async def act(connection: Connection, who: str) -> None:
        from mediamill.access import users

        await users.set_password(connection, who, password)

    _change(name, act, "has another password, and is logged out everywhere", json)


@app.command("scopes", epilog=examples("mediamill users scopes ann --scope read --scope ingest"))
def set_scopes(
    name: Name,
    scope: Annotated[list[Scope], typer.Option("--scope", help="What they may do; may be repeated.")],
    json: Json = False,
) -> None:
    """Say what a user may do from now on, also with the tokens that they made."""

    async def act(connection: Connection, who: str) -> None:
        from mediamill.access import users

        await users.set_scopes(connection, who, scope)

    _change(name, act, f"has the scopes {', '.join(in_order(scope))}", json)


@app.command("disable", epilog=examples("mediamill users disable ann"))
def disable_user(name: Name, json: Json = False) -> None:
    """Log a user out, and let neither them nor the tokens that they made in any more."""
    from mediamill.access.users import disable_user as act

    _change(name, act, "is disabled", json)


@app.command("enable", epilog=examples("mediamill users enable ann"))
def enable_user(name: Name, json: Json = False) -> None:
    """Let a disabled user in again."""
    from mediamill.access.users import enable_user as act

    _change(name, act, "is enabled", json)


@app.command("reset-second-factor", epilog=examples("mediamill users reset-second-factor ann"))
def reset_second_factor(name: Name, json: Json = False) -> None:
    """Remove a user's authenticator app, recovery codes and passkeys, and log them out: for a lost phone."""
    from mediamill.access.users import reset_second_factor as act

    _change(name, act, "logs in with the password alone, and is logged out everywhere", json)


@app.command("remove", epilog=examples("mediamill users remove ann", "mediamill users remove ann --yes"))
def remove_user(name: Name, yes: Yes = False, json: Json = False) -> None:
    """Remove a user, with their sessions and the tokens that they made."""
    from mediamill.access.users import remove_user as act

    confirm(f"Remove the user {name}, and every token that they made?", yes)
    _change(name, act, "is removed", json)


def _change(name: str, act: Act, done: str, json: bool) -> None:
    async def story(opened: App) -> None:
        async with opened.database.transaction() as connection:
            await act(connection, name)

    run(story)
    if json:
        print_json({"name": name})
    else:
        say(f"user {name} {done}")


def _read_password(stdin: bool) -> str:
    """Never an argument: those are seen by everybody on the machine, and stay in the shell's history."""
    if stdin:
        return sys.stdin.readline().rstrip("\r\n")
    if not sys.stdin.isatty():
        raise InvalidError("nobody is here to type a password", fix="add --stdin, and send it there")
    password: str = typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    return password
