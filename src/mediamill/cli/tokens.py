"""`mediamill tokens`: keys for programs, each with the scopes that it needs and no more."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mediamill.access.model import Scope, in_order
from mediamill.cli.options import LARGEST_ID, Json, examples
from mediamill.cli.session import run
from mediamill.cli.terminal import ago, coarse, one_line, print_json, print_table, say, styled

if TYPE_CHECKING:
    from mediamill.access.tokens import NewToken
    from mediamill.app import App

app = typer.Typer(no_args_is_help=True, help="Tokens with scopes, for programs that talk to the server.")

COLUMNS = (">id", "~name", "begins with", "scopes", "state", "~made by", ">used ago", ">expires in")


@app.command(
    "create",
    epilog=examples(
        "mediamill tokens create camera --scope ingest",
        "mediamill tokens create prometheus --scope read --days 365",
    ),
)
def create_token(
    name: Annotated[str, typer.Argument(help="What it is for.", show_default=False)],
    scope: Annotated[list[Scope], typer.Option("--scope", help="What it may do; may be repeated.")],
    days: Annotated[
        float | None, typer.Option(help="Valid for so many days. Unset: until it is revoked.")
    ] = None,
    json: Json = False,
) -> None:
    """Make a token. It is shown now and never again."""

    async def story(opened: App) -> NewToken:
        from mediamill.access import tokens
        from mediamill.cli.auditing import whoever_is_here

        async with opened.database.transaction() as connection:
            return await tokens.create_token(connection, name, scope, days=days, made_by=whoever_is_here())

    made = run(story)
    if json:
        print_json(asdict(made))
        return
    say(f"token {made.id} ({made.name}) has the scopes {', '.join(made.scopes)}. Shown only this once:")
    say(made.token, style="bold")
    say("use it: MEDIAMILL_TOKEN=…, or the header Authorization: Bearer …")


@app.command("list", epilog=examples("mediamill tokens list", "mediamill tokens list --all --json"))
def list_tokens(
    all_: Annotated[
        bool, typer.Option("--all", help="Also those that were revoked or have expired.")
    ] = False,
    json: Json = False,
) -> None:
    """Tokens, the newest first."""

    async def story(opened: App) -> list[dict[str, Any]]:
        from mediamill.access import tokens

        async with opened.database.connection() as connection:
            return await tokens.list_tokens(connection, all_=all_)

    found = run(story)
    if json:
        print_json(found)
    else:
        print_table(COLUMNS, [_row(token) for token in found], "no tokens; mediamill tokens create makes one")


def _row(token: dict[str, Any]) -> list[Any]:
    return [
        token["id"],
        one_line(token["name"], 40),
        f"mill_{token['prefix']}…",
        ", ".join(in_order(token["scopes"])),
        styled(token["state"]),
        one_line(token["made_by"], 24),
        ago(token["used_at"]) or "never",
        _left(token["expires_at"]),
    ]


def _left(at: datetime | None) -> str:
    if at is None:
        return "never"
    left = (at - datetime.now(UTC)).total_seconds()
    return coarse(left) if left > 0 else "over"


@app.command("revoke", epilog=examples("mediamill tokens revoke 3"))
def revoke_token(
    token_id: Annotated[
        int, typer.Argument(min=1, max=LARGEST_ID, metavar="ID", help="The token's id.", show_default=False)
    ],
    json: Json = False,
) -> None:
    """Make a token useless, at once and on every server."""

    async def story(opened: App) -> str:
        from mediamill.access import tokens

        async with opened.database.transaction() as connection:
            return await tokens.revoke_token(connection, token_id)

    name = run(story)
    if json:
        print_json({"id": token_id, "name": name})
    else:
        say(f"token {token_id} ({name}) is revoked")
