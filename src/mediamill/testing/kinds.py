"""Job kinds for trying the engine out: they do what their payload says.

`scripted.run` runs the scripted processor in a child process; `scripted.inline` runs in the worker itself.
"""

from __future__ import annotations

import asyncio
from typing import Any

from mediamill.engine.kinds import JobKind, Run
from mediamill.errors import GiveUpError, RetryLaterError


async def _run_inline(run: Run) -> Any:
    given = run.payload
    match given.get("do", "succeed"):
        case "succeed":
            pass
        case "sleep":
            await asyncio.sleep(float(given.get("seconds", 1)))
        case "report":
            steps = int(given.get("times", 10))
            for step in range(steps):
                await run.report(step=f"step {step + 1} of {steps}", percent=100 * (step + 1) / steps)
                await asyncio.sleep(float(given.get("seconds", 0.1)))
        case "raise_permanent":
            raise GiveUpError(str(given.get("text", "told to give up")))
        case "raise_temporary":
            raise RetryLaterError(str(given.get("text", "told to fail")))
        case word:
            raise GiveUpError(f"scripted.inline cannot {word!r}")
    return given.get("result")


KINDS = (
    JobKind("scripted.run", description="Does what its payload says, in a child process. For trying out."),
    JobKind(
        "scripted.keep",
        keeps_files=True,
        description="The same, keeping files for its later attempts. For trying out; its pool has to be named.",
    ),
    JobKind(
        "scripted.inline",
        handler=_run_inline,
        description="Does what its payload says, in the worker's own process. For trying out.",
    ),
)
