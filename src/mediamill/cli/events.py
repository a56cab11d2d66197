"""`mediamill events`: what happens, as it happens."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated

import typer

from mediamill.cli.options import LARGEST_ID, examples
from mediamill.cli.session import run
from mediamill.cli.terminal import console, one_line, print_line

if TYPE_CHECKING:
    from mediamill.app import App
    from mediamill.engine.events import Event

EXAMPLES = examples(
    "mediamill events", "mediamill events --topic job.failed --json", "mediamill events --after 0"
)


def follow(
    topic: Annotated[
        str | None, typer.Option(help="Only this topic (job.completed) or topics that begin so (job).")
    ] = None,
    subject: Annotated[str | None, typer.Option(help="Only this subject.")] = None,
    after: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=LARGEST_ID,
            help="Begin behind this event; 0 for all that are kept. Unset: from now on.",
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print each event as a line of JSON.")] = False,
) -> None:
    """Follow live events, until Ctrl-C.

    They tell the progress, completion and failure of jobs, and what workers do.
    """

    async def story(app: App) -> None:
        from mediamill.cli.follow import follow_events

        async with aclosing(follow_events(app, after)) as events:
            async for event in events:
                if _fits(event, topic, subject):
                    _print(event, json)

    run(story)


def _fits(event: Event, topic: str | None, subject: str | None) -> bool:
    same_topic = topic is None or event.topic == topic or event.topic.startswith(topic.rstrip(".") + ".")
    return same_topic and (subject is None or event.subject == subject)


def _print(event: Event, json: bool) -> None:
    if json:
        print_line({"id": event.id, "topic": event.topic, "subject": event.subject, "data": event.data})
        return
    from rich.text import Text

    data = "  ".join(f"{name} {value}" for name, value in event.data.items() if value is not None)
    colour = "red" if event.topic == "job.failed" else "cyan"
    line = Text.assemble(
        (f"{event.id:>8}  ", "dim"), (f"{event.topic:<14}", colour), f"  {one_line(data, 300)}"
    )
    console().print(line, soft_wrap=True)
