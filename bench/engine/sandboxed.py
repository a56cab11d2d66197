"""The no-op job as a processor, found like any plugin: by the entry point in `plugin/`."""

from __future__ import annotations

from bench.engine import bodies
from mediamill.processors.contract import ProcessorInput, ProcessorOutput


class BenchProcessor:
    """Counts the run, nothing else."""

    def process(self, given: ProcessorInput) -> ProcessorOutput:
        """One job."""
        bodies.run_noop()
        return ProcessorOutput({})
