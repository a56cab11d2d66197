"""The no-op job as a processor, found like any plugin: by the entry point in `plugin/`."""

from __future__ import annotations

from collections.abc import Sequence

from mediamill.processors.contract import ProcessorInput, ProcessorOutput


class BenchProcessor:
    """Does nothing: its child may reach neither the tally nor anything else, so the worker counts its runs."""

    def __init__(self, mime_types: Sequence[str], timeout_seconds: float) -> None:
        """As every processor is made."""

    def process(self, given: ProcessorInput) -> ProcessorOutput:
        """One job."""
        return ProcessorOutput({})
