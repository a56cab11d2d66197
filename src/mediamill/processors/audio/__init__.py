"""Sound: what is said in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mediamill.processors.audio.processor import AudioTranscriptionProcessor

__all__ = ["AudioTranscriptionProcessor"]


def __getattr__(name: str) -> Any:
    """The processor brings decoders with it, which whoever only writes captions should not load."""
    if name not in __all__:
        raise AttributeError(name)
    from mediamill.processors.audio import processor

    return getattr(processor, name)
