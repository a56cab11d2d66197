"""Sound: what is said in it."""

from mediamill.processors.audio.processor import AudioTranscriptionProcessor

__all__ = ["AudioTranscriptionProcessor"]
