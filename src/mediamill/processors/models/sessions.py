"""ONNX Runtime sessions as a child process wants them: few threads, no spinning, no words."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnxruntime

ERRORS_ONLY = 3


def open_session(path: Path, threads: int, *, keeps_memory: bool = True) -> onnxruntime.InferenceSession:
    """A session on the CPU. Waiting threads sleep: they would steal time from the other children.

    Memory that is kept for the next run is quicker, but grows with each new size of input.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = keeps_memory
    options.log_severity_level = ERRORS_ONLY
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
