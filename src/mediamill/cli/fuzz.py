"""`mediamill fuzz`: files that harm, by the thousand, through a real worker; and what became of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mediamill.cli.options import Json, examples
from mediamill.cli.terminal import console, print_json, say

EXAMPLES = examples(
    "mediamill fuzz", "mediamill fuzz --files 300 --seed 7 --keep ./bad --json", "mediamill fuzz --bridge"
)


def fuzz(
    files: Annotated[int, typer.Option(min=1, help="Files, at least; the worst ones are always in.")] = 2000,
    seed: Annotated[int, typer.Option(help="The same seed makes the same files.")] = 1,
    timeout: Annotated[float, typer.Option(min=1, help="Time limit of one file, in seconds.")] = 60,
    keep: Annotated[
        Path | None, typer.Option(file_okay=False, help="Copy the files that misbehaved to this folder.")
    ] = None,
    bridge: Annotated[
        bool, typer.Option("--bridge", help="Frames at the door of the WhatsApp bridge instead of files.")
    ] = False,
    json: Json = False,
) -> None:
    """Show that bad files do no harm: truncated and mutated ones, bombs, headers that lie, evil names.

    In a folder of its own, a real worker processes them. All five figures must be 0; the exit code says so.

    crashed: the worker died, or a job was left without an end. hung: a job did not end at its time limit. escaped:
    something was made or changed outside the scratch folder. over memory: a child was above its limit.
    without reason: a failure with no message, or with nothing but an exception's name or a library's words.
    Counted apart: children that died (the worker went on and told the reason), and files that were stopped at the
    time limit, of which nothing more is known.

    With --bridge: as many frames (malformed, oversized, of wrong types …) at a server of its own. Each must have its
    answer, and the line must go on; a frame without answer, a line that ended or a server that died is a fault.
    """
    import asyncio

    if bridge:
        _fuzz_bridge(files, seed, json)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from mediamill.testing.fuzz import Fuzz, FuzzPlan

    columns = (TextColumn("{task.description:10}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console(stderr=True), disable=json, transient=True) as progress:
        bar = progress.add_task("files", total=files)
        run = Fuzz(
            FuzzPlan(files, seed, timeout, keep),
            lambda done, total: progress.update(bar, completed=done, total=total),
        )
        report = asyncio.run(run.run())
    if json:
        print_json(report.as_dict())
    else:
        told = ", ".join(f"{name.replace('_', ' ')} {len(found)}" for name, found in report.faults.items())
        say(f"{report.files} files in {report.seconds:.0f} s, seed {report.seed}: {told}")
        ended = f"completed {report.by_status['completed']}, failed {report.by_status['failed']}"
        say(f"{ended}; stopped at the time limit {len(report.timed_out)}, died {len(report.child_deaths)}")
        for name, found in {**report.faults, "child died": report.child_deaths}.items():
            for text in found:
                say(f"{name.replace('_', ' ')}: {text}")
    if not report.is_clean:
        raise typer.Exit(1)


def _fuzz_bridge(frames: int, seed: int, json: bool) -> None:
    import asyncio

    from mediamill.testing.bridge_fuzz_server import fuzz_own_server

    report = asyncio.run(fuzz_own_server(frames, seed))
    if json:
        print_json(report.as_dict())
    else:
        say(
            f"{report.frames} frames in {report.seconds:.0f} s, seed {report.seed}: faults {len(report.faults)}"
        )
        codes = ", ".join(f"{code} {count}" for code, count in sorted(report.by_code.items()))
        say(f"refused {report.refused} ({codes}), acknowledged {report.acked}, fine {report.unanswered}")
        say(f"lines that a frame beyond the limit may end: {report.lines_ended}")
        for fault in report.faults:
            say(fault)
    if not report.is_clean:
        raise typer.Exit(1)
