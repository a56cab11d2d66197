"""`mediamill audit`: who did what, from where, and how it went."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from mediamill.cli.options import LARGEST_ID, Json, Limit, examples
from mediamill.cli.session import run
from mediamill.cli.terminal import one_line, print_json, print_table

if TYPE_CHECKING:
    from mediamill.app import App

EXAMPLES = examples(
    "mediamill audit", "mediamill audit --action login.failed", "mediamill audit --who ann --limit 500 --json"
)
COLUMNS = (">id", "at", "~who", "how", "from", "action", "~subject", "outcome")


def audit(
    who: Annotated[str | None, typer.Option(help="Only what this user or token did.")] = None,
    action: Annotated[
        str | None, typer.Option(help="Only this, such as user.add; user: all of users.")
    ] = None,
    before: Annotated[
        int | None,
        typer.Option(min=1, max=LARGEST_ID, help="Only older ones than this: to page on.", metavar="ID"),
    ] = None,
    limit: Limit = 50,
    json: Json = False,
) -> None:
    """What was done: logins, changes of users, tokens, pools and configuration, deletions, commands to workers.

    The newest first. What is older than MEDIAMILL_AUDIT_KEEP_DAYS is forgotten.
    """

    async def story(opened: App) -> list[dict[str, Any]]:
        from mediamill.access.audit import list_entries

        async with opened.database.connection() as connection:
            return await list_entries(connection, who=who, action=action, before=before, amount=limit)

    found = run(story)
    if json:
        print_json(found)
    else:
        print_table(COLUMNS, [_row(entry) for entry in found], "nothing yet")


def _row(entry: dict[str, Any]) -> list[Any]:
    return [
        entry["id"],
        f"{entry['at'].astimezone():%Y-%m-%d %H:%M:%S}",
        one_line(entry["who"], 32),
        entry["kind"],
        entry["address"],
        entry["action"],
        one_line(entry["subject"], 48),
        entry["outcome"],
    ]
