"""All commands in one app, and every error as a line that says what to do."""

from __future__ import annotations

import logging
import os
import sys
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer

from mediamill import __version__, logs
from mediamill.cli.auditing import note_arguments
from mediamill.cli.secret_files import read_secret_files

log = logging.getLogger("mediamill.cli")

TRUE = ("1", "true", "yes", "on")
READER_LEFT = 141  # `| head` has read enough: the code of a program that SIGPIPE ended, as shells report it


# Where each command, or group of commands, is defined; in the order of `mediamill --help`. A module is imported when
# its command is run: importing and reading all of them takes longer than most commands do.
COMMANDS = {
    "up": "up:up",
    "open": "open:open_pages",
    "chat": "chat:chat",
    "message": "message:message",
    "process": "process:process",
    "scan": "scan:scan",
    "search": "search:search",
    "mcp": "mcp:mcp",
    "worker": "worker:worker",
    "chaos": "chaos:chaos",
    "fuzz": "fuzz:fuzz",
    "sandbox": "sandbox:sandbox",
    "bots": "bots:app",
    "videos": "videos:app",
    "library": "library:app",
    "asset": "asset:app",
    "trash": "trash:app",
    "intake": "intake:app",
    "runs": "runs:app",
    "jobs": "jobs:app",
    "dead": "dead:app",
    "workers": "workers:app",
    "pools": "pools:app",
    "alerts": "alerts:app",
    "owners": "owners:app",
    "config": "config:app",
    "users": "users:app",
    "tokens": "tokens:app",
    "audit": "audit:audit",
    "models": "models:app",
    "storage": "storage:app",
    "backup": "backup:app",
    "restore": "backup:restore",
    "events": "events:follow",
    "check": "check:check",
    "doctor": "doctor:doctor",
    "version": "version:show_version",
}


def build_app(only: str | None = None) -> typer.Typer:
    """The whole command, or what one of its commands needs."""
    app = typer.Typer(
        name="mediamill", no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None
    )
    app.callback(context_settings={"max_content_width": 100})(_root)
    for name in (only,) if only else COMMANDS:
        _add_command(app, name)
    return app


def _add_command(app: typer.Typer, name: str) -> None:
    place, _, attribute = COMMANDS[name].partition(":")
    module = import_module(f"mediamill.cli.{place}")
    command = getattr(module, attribute)
    if isinstance(command, typer.Typer):
        app.add_typer(command, name=name)
    else:
        app.command(name, epilog=module.RESTORE_EXAMPLES if name == "restore" else module.EXAMPLES)(command)


def _root(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=lambda on: _print_version(on), is_eager=True
        ),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show tracebacks of errors (also: MEDIAMILL_DEBUG=1).")
    ] = False,
) -> None:
    """Media in from anywhere; text, streams, previews and search out: durably, exactly once.

    Settings come from the environment (MEDIAMILL_…); `mediamill check` finds what is wrong with them.
    """
    if debug:
        os.environ["MEDIAMILL_DEBUG"] = "1"


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"mediamill {__version__}")
        raise typer.Exit


@cache
def _read_commands(only: str | None) -> Any:
    return typer.main.get_command(build_app(only))


def run(arguments: list[str]) -> int:
    """Run one command line; return its exit code. Errors are reported on stderr."""
    note_arguments(arguments)
    try:
        return _run(arguments)
    finally:
        _empty_buffers()


def _run(arguments: list[str]) -> int:
    try:
        read_secret_files()
        named = arguments[0] if arguments and arguments[0] in COMMANDS else None
        code = _read_commands(named)(arguments, prog_name="mediamill", standalone_mode=False)
        sys.stdout.flush()  # here, where a full disk is still reported and a closed pipe still ends quietly
        return code if isinstance(code, int) else 0
    except BrokenPipeError:
        return READER_LEFT
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # Typer and Rich both turn a closed pipe into code 1
            return READER_LEFT
        raise
    except (typer.Abort, KeyboardInterrupt):
        return 130
    except typer.TyperException as error:
        return _tell_usage(error)
    except Exception as error:
        if os.environ.get("MEDIAMILL_DEBUG", "").lower() in TRUE:
            raise
        _tell(error)
        return 1


def _empty_buffers() -> None:
    """Drop what cannot be written: the interpreter would try again at exit, complain, and change the exit code."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)


def _tell_usage(error: Any) -> int:
    error.show()
    return int(error.exit_code)


def _tell(error: Exception) -> None:
    from mediamill.cli.faults import explain
    from mediamill.cli.terminal import warn

    faults = explain(error)
    for fault in faults:
        if logs.is_json():
            logs.tell(log, "command_failed", reason=fault.message, fix=fault.fix)
            continue
        warn(f"error: {fault.message}", style="red")
        if fault.fix:
            warn(f"  fix: {fault.fix}")
