"""Speech to text by a larger Whisper model, fetched from the model hub; then it needs no network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mediamill.processors.models.hub import HubModel, find_hub_model, hub_model_folder
from mediamill.processors.models.whisper import WhisperSpeech, load_whisper

if TYPE_CHECKING:
    from mediamill.settings import Settings

DEFAULT_MODEL = "large-v3-turbo"
FILES = ("config.json", "model.bin", "tokenizer.json")
EXTRAS = ("preprocessor_config.json", "vocabulary.*")


def _whisper(name: str, repository: str, revision: str, sha256: str | None = None) -> HubModel:
    digests = {"model.bin": sha256} if sha256 else {}
    return HubModel(name, repository, revision, FILES, EXTRAS, digests)


KNOWN = (
    _whisper(
        "large-v3-turbo",
        "mobiuslabsgmbh/faster-whisper-large-v3-turbo",
        "0a363e9161cbc7ed1431c9597a8ceaf0c4f78fcf",
        "e76620f83d5f5b69efd3d87e3dc180c1bd21df9fbebacfd4335e5e1efcc018da",
    ),
    _whisper("large-v3", "Systran/faster-whisper-large-v3", "edaa852ec7e145841d8ffdb056a99866b5f0a478"),
    _whisper("medium", "Systran/faster-whisper-medium", "08e178d48790749d25932bbc082711ddcfdfbc4f"),
    _whisper("small", "Systran/faster-whisper-small", "536b0662742c02347bc0e980a01041f333bce120"),
    _whisper("base", "Systran/faster-whisper-base", "ebe41f70d5b6dfa9166e2c581c45c9c0cfc57b66"),
    _whisper("tiny", "Systran/faster-whisper-tiny", "d90ca5fe260221311c53c58e660288d3deb8d356"),
)


def chosen_model(settings: Settings) -> HubModel:
    """The one of the settings."""
    return find_hub_model(KNOWN, settings.speech_model or DEFAULT_MODEL, "MEDIAMILL_SPEECH_MODEL")


class HubSpeech(WhisperSpeech):
    """Its files are fetched before: see fetch_hub.py."""

    def __init__(self, settings: Settings) -> None:
        model = chosen_model(settings)
        folder = hub_model_folder(model, settings.models_folder)
        import ctranslate2

        device, kind = ("cuda", "float16") if ctranslate2.get_cuda_device_count() else ("cpu", "int8")
        super().__init__(model.id, load_whisper(folder, settings.processor_threads, device, kind))
