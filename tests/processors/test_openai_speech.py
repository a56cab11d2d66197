"""Speech by an OpenAI-compatible endpoint: small files as they are, streamed; others as pieces of speech."""

from __future__ import annotations

import tracemalloc
import wave
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from mediamill.errors import GiveUpError
from mediamill.media.sound import SoundReader
from mediamill.processors.audio.pieces import Piece
from mediamill.processors.models import openai_speech
from mediamill.processors.models.contract import Segment
from mediamill.processors.models.openai_speech import OpenAiSpeech, as_flac, bundle, read_segments
from mediamill.processors.models.spoken_languages import language_code
from mediamill.testing import model_server
from mediamill.testing.model_server import failing
from mediamill.testing.openai_server import WORDS, OpenAiServer, read_form, sound_seconds
from tests.media.speech import DASHWOOD
from tests.processors.remote_models import KEY, settings_for, tone

pytestmark = pytest.mark.spec("C26")


@pytest.fixture
def server() -> Iterator[OpenAiServer]:
    with OpenAiServer() as server:
        yield server


def quiet(_segment: Segment) -> None:
    pass


def test_a_voice_note_is_sent_as_it_is(server: OpenAiServer) -> None:
    told: list[Segment] = []
    speech = OpenAiSpeech(settings_for(server.url, speech_model="whisper-large"))
    heard = speech.transcribe(DASHWOOD, language="en", on_segment=told.append)
    (seen,) = server.seen
    form = read_form(seen)
    assert (seen.method, seen.path) == ("POST", "/v1/audio/transcriptions")
    assert seen.headers["authorization"] == f"Bearer {KEY}"
    assert form["file"] == DASHWOOD.read_bytes()
    assert form["file.name"] == b"sound.ogg"  # not the sender's name
    assert form["model"] == b"whisper-large"
    assert form["language"] == b"en"
    assert form["response_format"] == b"verbose_json"
    assert [each.text for each in heard.segments] == [WORDS]
    assert list(heard.segments) == told
    assert heard.language == "en"
    assert heard.duration_seconds == pytest.approx(sound_seconds(DASHWOOD.read_bytes()), abs=0.1)
    assert heard.model.startswith("whisper-large@127.0.0.1:")


def test_a_file_is_streamed_from_the_disk(
    server: OpenAiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_server, "KEPT_BYTES", 1_000_000)  # the server is in this process too
    path = tone(tmp_path / "sound.wav", 2)
    size = 20_000_000
    with path.open("r+b") as file:
        file.truncate(size)
    server.always(model_server.reply(model_server.Reply.json({"text": WORDS, "duration": 2.0})))
    speech = OpenAiSpeech(settings_for(server.url))
    tracemalloc.start()
    try:
        speech.transcribe(path, language=None, on_segment=quiet)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert server.seen[0].body_bytes > size
    assert int(server.seen[0].headers["content-length"]) == server.seen[0].body_bytes
    assert peak < 8_000_000


def test_a_server_without_times_is_asked_for_text_alone_from_then_on(tmp_path: Path) -> None:
    with OpenAiServer(with_times=False) as server:
        speech = OpenAiSpeech(settings_for(server.url))
        for _ in range(2):
            heard = speech.transcribe(tone(tmp_path / "sound.wav"), language=None, on_segment=quiet)
    asked = [read_form(seen)["response_format"] for seen in server.seen]
    assert asked == [b"verbose_json", b"json", b"json"]
    assert heard.segments == (Segment(0.0, 1.0, WORDS),)


def test_a_refusal_that_is_not_about_times_is_told(server: OpenAiServer, tmp_path: Path) -> None:
    server.always(failing(400, "this is no sound"))
    speech = OpenAiSpeech(settings_for(server.url))
    for _ in range(2):
        with pytest.raises(GiveUpError, match="this is no sound"):
            speech.transcribe(tone(tmp_path / "sound.wav"), language=None, on_segment=quiet)
    assert len(server.seen) == 4  # nothing was learnt about times


def speech_after_silence(path: Path, silences: tuple[float, ...]) -> Path:
    """The same sentence after each silence, as a WAV."""
    with SoundReader(DASHWOOD) as reader:
        sentence = np.concatenate(list(reader.blocks()))
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16_000)
        for seconds in silences:
            file.writeframes(bytes(int(32_000 * seconds)))
            file.writeframes((sentence * 32767).astype(np.int16).tobytes())
    return path


def test_a_file_that_is_too_large_goes_as_pieces_of_speech_with_the_times_of_the_file(
    server: OpenAiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openai_speech, "WHOLE_FILE_BYTES", 100_000)
    path = speech_after_silence(tmp_path / "long.wav", (20, 5, 30))
    heard = OpenAiSpeech(settings_for(server.url)).transcribe(path, language="en", on_segment=quiet)
    forms = [read_form(seen) for seen in server.seen]
    lengths = [sound_seconds(form["file"]) for form in forms]
    assert len(forms) == 2  # the first two sentences are near each other
    assert {form["file.name"] for form in forms} == {b"sound.flac"}
    assert sum(lengths) < 35  # most of the silence stayed here
    sentence = (heard.duration_seconds - 55) / 3
    starts = [each.start_seconds for each in heard.segments]
    assert starts == pytest.approx([20, 20 + 5 + 30 + 2 * sentence], abs=1)
    assert 12 < heard.speech_seconds < 25


def test_without_times_each_piece_is_sent_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openai_speech, "WHOLE_FILE_BYTES", 100_000)
    path = speech_after_silence(tmp_path / "long.wav", (1, 5))
    with OpenAiServer(with_times=False) as server:
        speech = OpenAiSpeech(settings_for(server.url))
        speech.transcribe(tone(tmp_path / "short.wav"), language=None, on_segment=quiet)
        heard = speech.transcribe(path, language=None, on_segment=quiet)
    assert [each.start_seconds for each in heard.segments] == pytest.approx([1, 13], abs=1.5)


def test_a_silent_file_that_is_too_large_asks_nobody(
    server: OpenAiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openai_speech, "WHOLE_FILE_BYTES", 1_000)
    path = tone(tmp_path / "tone.wav", 3)
    heard = OpenAiSpeech(settings_for(server.url)).transcribe(path, language="de", on_segment=quiet)
    assert server.seen == []
    assert (heard.segments, heard.language, heard.speech_seconds) == ((), "de", 0)
    assert heard.duration_seconds == pytest.approx(3, abs=0.1)


def test_pieces_become_bundles_whose_times_stay_right() -> None:
    def piece(start: float, seconds: float) -> Piece:
        return Piece(start, seconds, np.ones(int(seconds * 16_000), np.float32))

    near, far, long = piece(10, 20), piece(35, 20), piece(300, 29)
    bundles = list(bundle([near, far, long], 300))
    assert [each.start_seconds for each in bundles] == [10, 300]
    joined = bundles[0].samples
    assert len(joined) == 45 * 16_000
    assert joined[19 * 16_000] == 1
    assert joined[22 * 16_000] == 0
    assert joined[26 * 16_000] == 1
    assert [each.start_seconds for each in bundle([near, far], 40)] == [10, 35]
    assert sum(each.speech_seconds for each in bundles) == 69


def test_flac_keeps_length_and_sound() -> None:
    sound = np.sin(np.arange(40_000) / 20).astype(np.float32) * 0.5
    content = as_flac(sound)
    assert content[:4] == b"fLaC"
    assert sound_seconds(content) == pytest.approx(2.5)
    assert len(content) < 80_000


def test_segments_without_times_are_nonsense_and_empty_ones_are_left_out() -> None:
    good = {"start": 1, "end": 2.5, "text": " hello "}
    told = {"segments": [good, {"start": 3, "end": 2, "text": "back"}, {"start": 4, "end": 5, "text": "  "}]}
    assert read_segments(told, 9, 10) == (Segment(11, 12.5, "hello"), Segment(13, 13, "back"))
    for bad in ({"text": "x"}, {"start": float("inf"), "end": 1, "text": "x"}, "x", {"start": -1, "end": 1}):
        with pytest.raises(GiveUpError, match="times"):
            read_segments({"segments": [bad]}, 9)


@pytest.mark.parametrize(
    ("stated", "code"),
    [
        ("english", "en"),
        ("EN", "en"),
        ("pt-BR", "pt"),
        ("Klingon", None),
        ("", None),
        (5, None),
        (None, None),
    ],
)
def test_languages_become_codes(stated: object, code: str | None) -> None:
    assert language_code(stated) == code
