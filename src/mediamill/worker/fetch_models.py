"""Fetches models of the hub for children, which have no network and cannot write to the models' folder."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress

from mediamill.environment import network_environment
from mediamill.processors.models.fetch_hub import NEVER
from mediamill.worker.failures import ProcessorFailedError, ProcessorGaveUpError
from mediamill.worker.spawn import PROCESSOR_SETTINGS

MISSING = "hub_model_missing"  # said by a child whose settings ask for a model that is not there
TEXT_CHARACTERS = 2_000


def _environment() -> dict[str, str]:
    """The way to the hub, and which models are wanted; no secrets but the hub's own."""
    wanted = {f"MEDIAMILL_{name}".upper() for name in PROCESSOR_SETTINGS} | {"MEDIAMILL_MODELS"}
    own = {name: value for name, value in os.environ.items() if name in wanted or name.startswith("HF_")}
    return network_environment() | own


async def fetch_hub_models() -> None:
    """In a process of its own, which can be ended; another that fetches already is waited for."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-P", "-m", "mediamill.processors.models.fetch_hub"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env=_environment(),
    )
    try:
        _, said = await process.communicate()
    except BaseException:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        raise
    if process.returncode:
        reason = (
            said.decode("utf-8", "replace").strip()[-TEXT_CHARACTERS:] or "the models could not be fetched"
        )
        failure = ProcessorGaveUpError if process.returncode == NEVER else ProcessorFailedError
        raise failure(reason, fix="mediamill models fetch")
