"""Speech to text by a Whisper model that comes in a package."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mediamill.processors.models.catalogue import find_model
from mediamill.processors.models.installed import model_folder
from mediamill.processors.models.whisper import WhisperSpeech, load_whisper

if TYPE_CHECKING:
    from mediamill.settings import Settings

DEFAULT_MODEL = "whisper-base"  # finds the language by itself; whisper-tiny.en is the fast one for English


class LocalSpeech(WhisperSpeech):
    """The model is loaded once per process, here."""

    def __init__(self, settings: Settings) -> None:
        name = settings.speech_model or DEFAULT_MODEL
        super().__init__(find_model(name).id, load_whisper(model_folder(name), settings.processor_threads))
