"""Signals on an event loop, where there are any: not on Windows, and not in a thread of a program that embeds us."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Iterable
from typing import Any

from mediamill.logs import tell

log = logging.getLogger(__name__)

STOP = (signal.SIGINT, signal.SIGTERM)


def on_signals(numbers: Iterable[int], call: Callable[[], Any]) -> None:
    """Call it for each of these; where that is not possible, say so, and start all the same."""
    loop = asyncio.get_running_loop()
    try:
        for number in numbers:
            loop.add_signal_handler(number, call)
    except (NotImplementedError, RuntimeError, ValueError) as error:
        tell(log, "signal_handlers_unavailable", reason=str(error) or "this event loop has none")
