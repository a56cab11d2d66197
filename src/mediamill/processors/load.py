"""Makes a processor from the text that declares it. Children load theirs here: looking entry points up is slow."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import cast

from mediamill.errors import InvalidError
from mediamill.processors.contract import Processor


class BrokenProcessorError(InvalidError):
    """The processor is declared but cannot be loaded."""

    code = "broken_processor"


def load_declared(
    name: str, declared: str, mime_types: Sequence[str] = (), timeout_seconds: float = 60
) -> Processor:
    """Import a processor declared as `module:Class`, and make one for a pool with these types and this time limit."""
    module, _, attribute = declared.partition("[")[0].strip().partition(":")
    try:
        found = import_module(module.strip())
        for part in attribute.strip().split("."):
            found = getattr(found, part)
        made = found(mime_types, timeout_seconds)  # type: ignore[operator]
    except Exception as error:
        raise BrokenProcessorError(
            f"processor {name!r} ({declared}) cannot be loaded: {type(error).__name__}: {error}"
        ) from error
    if not callable(getattr(made, "process", None)):
        raise BrokenProcessorError(f"processor {name!r} ({declared}) has no method process()")
    return cast(Processor, made)
