"""`mediamill sandbox`: what a child process that decodes a stranger's file could do on this machine, tried out."""

from __future__ import annotations

from typing import Annotated

import typer

from mediamill.cli.options import Json, examples
from mediamill.cli.terminal import print_json, say

EXAMPLES = examples("mediamill sandbox", "mediamill sandbox --all", "mediamill sandbox --json | jq .open")


def sandbox(
    show_all: Annotated[
        bool, typer.Option("--all", help="List the attempts that were refused, too.")
    ] = False,
    json: Json = False,
) -> None:
    """Try every known way out of a child process, and list those that this machine does not close.

    Each file of a stranger is decoded in a child process that the kernel confines. A child on this machine plays one
    that was taken over: it tries to read and write files of others, to reach the network and other processes, and to
    call parts of the kernel that decoding does not need. Nothing is harmed where it succeeds.

    The exit code is 1 if any attempt gets through.
    """
    import asyncio
    import tempfile
    from dataclasses import asdict
    from pathlib import Path

    from mediamill.worker.confine import describe_confinement
    from mediamill.worker.escape_check import try_escapes

    with tempfile.TemporaryDirectory(prefix="mediamill-sandbox-") as folder:
        outcomes = asyncio.run(try_escapes(Path(folder).resolve()))
    passed = [outcome for outcome in outcomes if not outcome.refused]
    if json:
        shown = {"in_force": describe_confinement(), "tried": len(outcomes)}
        refused = {"refused": [asdict(outcome) for outcome in outcomes if outcome.refused]}
        print_json({**shown, "open": [asdict(outcome) for outcome in passed], **refused})
    else:
        say(f"children: {describe_confinement()}")
        for outcome in outcomes:
            if show_all or not outcome.refused:
                state = "refused" if outcome.refused else "OPEN"
                say(f"  {state:8} {outcome.what} ({' or '.join(outcome.by)})")
        say(f"{len(outcomes)} ways out tried, {len(outcomes) - len(passed)} refused, {len(passed)} open")
    if passed:
        raise typer.Exit(1)
