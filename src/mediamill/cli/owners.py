"""`mediamill owners`: hold all jobs of an owner, and let them go again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from mediamill.cli.options import Json, examples
from mediamill.cli.session import run
from mediamill.cli.terminal import ago, plural, print_json, print_table, say

if TYPE_CHECKING:
    from mediamill.app import App

app = typer.Typer(
    no_args_is_help=True, help="Hold the jobs of an owner (a bot, a library), and release them."
)

Owner = Annotated[str, typer.Argument(help="Whose jobs.", show_default=False)]


@app.command("hold", epilog=examples("mediamill owners hold bot-7"))
def hold(owner: Owner, json: Json = False) -> None:
    """Claim nothing of this owner from now on; what runs saves its result."""

    async def story(opened: App) -> int:
        from mediamill.engine.hold import hold_owner

        async with opened.database.transaction() as connection:
            return await hold_owner(connection, owner)

    count = run(story)
    print_json({"owner": owner, "held": count}) if json else say(
        f"{owner} is on hold; {plural(count, 'job')} held"
    )


@app.command("release", epilog=examples("mediamill owners release bot-7"))
def release(owner: Owner, json: Json = False) -> None:
    """Let the jobs of this owner be claimed again."""

    async def story(opened: App) -> int:
        from mediamill.engine.hold import release_owner

        async with opened.database.transaction() as connection:
            return await release_owner(connection, owner)

    count = run(story)
    print_json({"owner": owner, "released": count}) if json else say(
        f"{owner} is back; {plural(count, 'job')} released"
    )


@app.command("list", epilog=examples("mediamill owners list"))
def list_owners(json: Json = False) -> None:
    """Owners on hold, and how many of their jobs wait."""

    async def story(opened: App) -> list[dict[str, Any]]:
        from mediamill.engine.watch import held_owners

        async with opened.database.connection() as connection:
            return await held_owners(connection)

    owners = run(story)
    if json:
        print_json(owners)
        return
    rows = [[owner["owner"], ago(owner["held_at"]), owner["jobs"]] for owner in owners]
    print_table(("owner", ">held since", ">jobs held"), rows, "no owner is on hold")
