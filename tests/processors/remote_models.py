"""The adapters to servers beyond this machine, each with its loopback server and one question to ask."""

from __future__ import annotations

import socket
import wave
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import SecretStr

from mediamill.processors.models import calls
from mediamill.processors.models.calls import CallerCalls
from mediamill.processors.models.gemini_video import GeminiVideo
from mediamill.processors.models.moondream_vision import MoondreamVision
from mediamill.processors.models.openai_embedder import OpenAiEmbedder
from mediamill.processors.models.openai_speech import OpenAiSpeech
from mediamill.processors.models.openai_text import OpenAiText
from mediamill.processors.models.openai_vision import OpenAiVision
from mediamill.processors.models.servers import model_servers, placeholder_keys
from mediamill.settings import Settings
from mediamill.testing.gemini_server import GeminiServer
from mediamill.testing.model_server import ModelServer
from mediamill.testing.moondream_server import MoondreamServer
from mediamill.testing.openai_server import OpenAiServer
from mediamill.worker.start_caller import start_caller

KEY = "sk-very-secret-0123456789"


def settings_for(url: str, timeout_seconds: float = 10, **more: Any) -> Settings:
    """All servers at one address."""
    return Settings(
        openai_url=f"{url}/v1",
        openai_key=SecretStr(KEY),
        gemini_url=url,
        gemini_key=SecretStr(KEY),
        moondream_url=url,
        moondream_key=SecretStr(KEY),
        model_timeout_seconds=timeout_seconds,
        **more,
    )


@dataclass(frozen=True)
class Case:
    """One adapter."""

    server: Callable[[], ModelServer]
    adapter: Callable[[Settings], Any]
    ask: Callable[[Any, Path], object]
    key_setting: str = "MEDIAMILL_OPENAI_KEY"


@contextmanager
def calling(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    """Calls go through a caller, as in a child process; the settings as such a process has them."""
    sock, callers = socket.socketpair()
    process = start_caller(callers, model_servers(settings))
    try:
        with monkeypatch.context() as patch:
            patch.setattr(calls, "_inherited_calls", lambda: CallerCalls(sock))
            held = {
                name.removeprefix("MEDIAMILL_").lower(): SecretStr(key)
                for name, key in placeholder_keys(settings).items()
            }
            yield settings.model_copy(update=held)
    finally:
        sock.close()
        process.wait(30)


def pixels(width: int = 40, height: int = 30) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """A red square on white."""
    image = np.full((height, width, 3), 255, np.uint8)
    image[height // 4 : height // 2, width // 4 : width // 2] = (255, 0, 0)
    return image


def tone(path: Path, seconds: float = 1.0) -> Path:
    """A sound file without speech."""
    samples = (np.sin(np.arange(int(16_000 * seconds)) / 10) * 8000).astype(np.int16)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16_000)
        file.writeframes(samples.tobytes())
    return path


def ask_speech(adapter: OpenAiSpeech, folder: Path) -> object:
    return adapter.transcribe(tone(folder / "sound.wav"), language=None, on_segment=lambda _: None)


def ask_video(adapter: GeminiVideo, folder: Path) -> object:
    (folder / "video.mp4").write_bytes(b"moving pictures")
    return adapter.watch(folder / "video.mp4", "video/mp4")


CASES = {
    "vision": Case(OpenAiServer, OpenAiVision, lambda adapter, _: adapter.look(pixels())),
    "text": Case(OpenAiServer, OpenAiText, lambda adapter, _: adapter.complete("Shorten.", "long text")),
    "embedder": Case(OpenAiServer, OpenAiEmbedder, lambda adapter, _: adapter.embed_texts(["one", "two"])),
    "speech": Case(OpenAiServer, OpenAiSpeech, ask_speech),
    "moondream": Case(
        MoondreamServer, MoondreamVision, lambda adapter, _: adapter.look(pixels()), "MEDIAMILL_MOONDREAM_KEY"
    ),
    "gemini": Case(GeminiServer, GeminiVideo, ask_video, "MEDIAMILL_GEMINI_KEY"),
}
