"""`mediamill message`: a text with images for the agent of the running server; its answer is printed as it comes."""

from __future__ import annotations

import getpass
import platform
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from mediamill.cli.options import Json, examples
from mediamill.errors import InvalidError

if TYPE_CHECKING:
    from mediamill.client import Client, Image, Run

EXAMPLES = examples(
    'mediamill message "hello there"',
    'mediamill message "describe these" -i a.jpg -i b.png',
    "git diff | mediamill message - --thread review --json",
    'mediamill message "in French, please" --mode steer',
)
# Sending fails soon where no server is; whoever waits for an answer sits a restart of the server out.
SEND_PATIENCE_SECONDS, FOLLOW_PATIENCE_SECONDS = 2.0, 120.0

Thread = Annotated[
    str | None,
    typer.Option(
        help="The conversation. Unset: cli:USER@HOST, so that each message goes on from the one before.",
        show_default=False,
    ),
]


def message(
    text: Annotated[
        str, typer.Argument(metavar="TEXT", help="What to say; - reads it from stdin.", show_default=False)
    ],
    image: Annotated[
        list[Path] | None,
        typer.Option(
            "--image", "-i", help="A JPEG, PNG, WebP or GIF to go with it; up to 10, in this order."
        ),
    ] = None,
    thread: Thread = None,
    mode: Annotated[
        Literal["prompt", "follow_up", "steer"],
        typer.Option(
            help="prompt and follow_up wait for what was said before; steer goes into the run that is going on."
        ),
    ] = "prompt",
    key: Annotated[
        str | None,
        typer.Option(
            help="Idempotency key: sent again with the same key, it is taken once.", show_default=False
        ),
    ] = None,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Do not wait for the answer.")] = False,
    json: Json = False,
) -> None:
    """Say something to the agent, on the server that `mediamill up` runs, and print its answer.

    Ctrl-C stops the waiting, not the agent. Exit code 1 if there was no answer.
    """
    from mediamill.cli.message_images import check_images

    said = read_text(text)
    images = check_images(image or [])
    run = _send(thread or default_thread(), said, images, mode, key)
    if no_wait:
        _tell_sent(run, json)
    else:
        follow(run, json)


def follow(run: Run, json: bool) -> None:
    """Print the answer as it comes; with --json, the run when it has ended."""
    from mediamill.cli.terminal import print_json
    from mediamill.client import RunFailedError

    ended = _wait(run, json)
    if json:
        print_json(run_out(ended))
    if ended.state == "failed":
        if json:
            raise typer.Exit(1)
        raise RunFailedError(ended)
    if not json:
        _whisper(f"thread {run.thread_key}, run {run.run_id}")


def _send(
    thread: str,
    text: str,
    images: list[Image],
    mode: Literal["prompt", "follow_up", "steer"],
    key: str | None,
) -> Run:
    from mediamill.cli.message_screen import upload_bar
    from mediamill.cli.terminal import warn

    total = sum(image.data.stat().st_size for image in images if isinstance(image.data, Path))
    try:
        with open_client(SEND_PATIENCE_SECONDS) as client, upload_bar(len(images), total) as progress:
            run = client.send_message(thread, text, images, mode, key, progress)
    except KeyboardInterrupt:
        warn(f"it may have arrived: mediamill runs list --thread {thread} shows it", style="yellow")
        raise
    if run.repeated:
        warn("this was sent before with the same key; its run answers", style="yellow")
    return run


def _wait(run: Run, json: bool) -> Run:
    """Until the run has ended. Whoever stops waiting is told how to look at it."""
    from mediamill.cli.message_screen import show_answer
    from mediamill.cli.terminal import warn
    from mediamill.client import NoServerError

    try:
        with open_client(FOLLOW_PATIENCE_SECONDS) as client:
            return client.wait(run.run_id) if json else show_answer(client.stream(run.run_id))
    except (KeyboardInterrupt, NoServerError):
        warn(f"the run goes on; to see its answer: mediamill runs show {run.run_id}", style="yellow")
        raise


def _tell_sent(run: Run, json: bool) -> None:
    from mediamill.cli.terminal import print_json, say

    if json:
        print_json(run_out(run))
    else:
        say(f"run {run.run_id} is {run.state}")
        _whisper(f"to see its answer: mediamill runs show {run.run_id}")


def _whisper(text: str) -> None:
    """A note for somebody who looks; scripts have --json."""
    from mediamill.cli.terminal import warn

    if sys.stderr.isatty():
        warn(text, style="dim")


def run_out(run: Run) -> dict[str, object]:
    """For JSON."""
    return asdict(run)


def open_client(patience_seconds: float) -> Client:
    """A client of the server that the settings name."""
    from mediamill.cli.server_client import server_url
    from mediamill.client import Client
    from mediamill.settings import Settings

    settings = Settings()
    secret = settings.token or settings.admin_secret
    token = None if secret is None else secret.get_secret_value()
    return Client(server_url(settings), token, patience=patience_seconds)


def default_thread() -> str:
    """One for each user of each machine."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "somebody"
    return f"cli:{user}@{platform.node() or 'localhost'}"


def read_text(given: str) -> str:
    """The text from the argument or stdin; never more of stdin than a message may have."""
    from mediamill.inputs.model import TEXT_CHARACTERS

    text = _read_stdin(4 * TEXT_CHARACTERS) if given == "-" else given
    if not text.strip():
        raise InvalidError("there is no text", fix="say what to do with the images, or ask something")
    if len(text) > TEXT_CHARACTERS:
        raise InvalidError(f"the text is too long: a message may have {TEXT_CHARACTERS:,} characters")
    return text


def _read_stdin(most_bytes: int) -> str:
    """A little more than may be; whatever the locale, UTF-8."""
    try:
        return sys.stdin.buffer.read(most_bytes + 1).decode(errors="strict").removesuffix("\n")
    except UnicodeError:
        raise InvalidError("what comes from stdin is no text in UTF-8") from None
