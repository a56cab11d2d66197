"""All commands in one app, and every error as a line that says what to do."""

from __future__ import annotations

import logging
import os
import sys
from functools import cache
from typing import Annotated, Any

import typer

from mediamill import __version__, logs
from mediamill.cli import (
    alerts,
    asset,
    audit,
    backup,
    bots,
    chaos,
    chat,
    check,
    config,
    dead,
    doctor,
    events,
    fuzz,
    intake,
    jobs,
    library,
    mcp,
    message,
    models,
    owners,
    pools,
    process,
    runs,
    scan,
    search,
    storage,
    tokens,
    trash,
    up,
    users,
    version,
    videos,
    worker,
    workers,
)
from mediamill.cli.auditing import note_arguments

log = logging.getLogger("mediamill.cli")

TRUE = ("1", "true", "yes", "on")


def build_app() -> typer.Typer:
    """The whole command."""
    app = typer.Typer(
        name="mediamill", no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None
    )
    app.callback(context_settings={"max_content_width": 100})(_root)
    app.command("up", epilog=up.EXAMPLES)(up.up)
    app.command("chat", epilog=chat.EXAMPLES)(chat.chat)
    app.command("message", epilog=message.EXAMPLES)(message.message)
    app.command("process", epilog=process.EXAMPLES)(process.process)
    app.command("scan", epilog=scan.EXAMPLES)(scan.scan)
    app.command("search", epilog=search.EXAMPLES)(search.search)
    app.command("mcp", epilog=mcp.EXAMPLES)(mcp.mcp)
    app.command("worker", epilog=worker.EXAMPLES)(worker.worker)
    app.command("chaos", epilog=chaos.EXAMPLES)(chaos.chaos)
    app.command("fuzz", epilog=fuzz.EXAMPLES)(fuzz.fuzz)
    app.add_typer(bots.app, name="bots")
    app.add_typer(videos.app, name="videos")
    app.add_typer(library.app, name="library")
    app.add_typer(asset.app, name="asset")
    app.add_typer(trash.app, name="trash")
    app.add_typer(intake.app, name="intake")
    app.add_typer(runs.app, name="runs")
    app.add_typer(jobs.app, name="jobs")
    app.add_typer(dead.app, name="dead")
    app.add_typer(workers.app, name="workers")
    app.add_typer(pools.app, name="pools")
    app.add_typer(alerts.app, name="alerts")
    app.add_typer(owners.app, name="owners")
    app.add_typer(config.app, name="config")
    app.add_typer(users.app, name="users")
    app.add_typer(tokens.app, name="tokens")
    app.command("audit", epilog=audit.EXAMPLES)(audit.audit)
    app.add_typer(models.app, name="models")
    app.add_typer(storage.app, name="storage")
    app.add_typer(backup.app, name="backup")
    app.command("restore", epilog=backup.RESTORE_EXAMPLES)(backup.restore)
    app.command("events", epilog=events.EXAMPLES)(events.follow)
    app.command("check", epilog=check.EXAMPLES)(check.check)
    app.command("doctor", epilog=doctor.EXAMPLES)(doctor.doctor)
    app.command("version", epilog=version.EXAMPLES)(version.show_version)
    return app


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
def _read_commands() -> Any:
    """Reading what all of them take is longer work than most of them do: once is enough for many command lines."""
    return typer.main.get_command(build_app())


def run(arguments: list[str]) -> int:
    """Run one command line; the exit code. Errors are told on stderr."""
    note_arguments(arguments)
    try:
        code = _read_commands()(arguments, prog_name="mediamill", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except BrokenPipeError:
        return _leave_quietly()
    except (typer.Abort, KeyboardInterrupt):
        return 130
    except typer.TyperException as error:
        return _tell_usage(error)
    except Exception as error:
        if os.environ.get("MEDIAMILL_DEBUG", "").lower() in TRUE:
            raise
        _tell(error)
        return 1


def _leave_quietly() -> int:
    """Whoever read our output has gone (`| head`); nothing more can be said, and nothing is wrong."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    return 0


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
