"""`mediamill alerts`: what was told by webhook, and whether the webhook works."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer

from mediamill.cli.options import Json, examples
from mediamill.cli.session import run
from mediamill.cli.terminal import clock, one_line, print_json, print_table, say, styled
from mediamill.errors import InvalidError, UnavailableError

if TYPE_CHECKING:
    from mediamill.app import App

app = typer.Typer(no_args_is_help=True, help="See the alerts of the last days, try the webhook.")

COLUMNS = (">id", "type", "raised", "state", ">tries", "~last error")


class AlertNotTakenError(UnavailableError):
    """The webhook did not take the alert."""

    code = "alert_not_taken"


@app.command("list", epilog=examples("mediamill alerts list", "mediamill alerts list --json"))
def list_alerts(
    amount: Annotated[int, typer.Option(min=1, max=10_000, help="Most that are shown.")] = 50,
    json: Json = False,
) -> None:
    """Alerts of the last seven days, newest first, and whether they arrived."""

    async def story(opened: App) -> list[dict[str, Any]]:
        from mediamill.engine.alerts import list_alerts

        async with opened.database.connection() as connection:
            return await list_alerts(connection, amount)

    found = run(story)
    if json:
        print_json(found)
    else:
        print_table(COLUMNS, [_row(alert) for alert in found], "no alerts in the last seven days")


def _row(alert: dict[str, Any]) -> list[Any]:
    return [
        alert["id"],
        alert["type"],
        clock(alert["created_at"]),
        styled(alert["state"].replace("_", " ")),
        alert["tries"],
        one_line(alert["last_error"] or "", 80),
    ]


@app.command("test", epilog=examples("mediamill alerts test", "mediamill alerts test --json"))
def try_webhook(json: Json = False) -> None:
    """Send an alert now, by MEDIAMILL_ALERT_WEBHOOK_URL, and say whether it arrived.

    Exit code 1 if it did not.
    """

    async def story(opened: App) -> tuple[str, str | None]:
        from mediamill.engine.alert_sender import send_test

        url = opened.settings.alert_webhook_url
        if url is None:
            raise InvalidError("there is no webhook", fix="set MEDIAMILL_ALERT_WEBHOOK_URL")
        host = urlsplit(url.get_secret_value()).hostname or "?"
        return host, await send_test(opened.database, opened.settings)

    host, error = run(story)
    if error is not None:
        raise AlertNotTakenError(
            f"{host} did not take it: {error}", fix="mediamill check; docs/how-to/alerts.md"
        )
    print_json({"host": host, "taken": True}) if json else say(f"{host} has taken a test alert")
