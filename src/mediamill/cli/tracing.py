"""Traces for the commands that stay."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from mediamill import __version__
from mediamill.logs import tell
from mediamill.traces import start_traces, stop_traces

log = logging.getLogger("mediamill.cli")


@contextmanager
def traced(service: str, url: str | None) -> Iterator[None]:
    """Traces, if they are wanted, for the length of a process; without the extra it works all the same."""
    if not start_traces(service, __version__, url):
        tell(log, "traces_missing")
    try:
        yield
    finally:
        stop_traces()
