"""Real speech by the real model: what is said, when, in which language; and what happens without any."""

from __future__ import annotations

import difflib
import re
import wave
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mediamill.media.errors import EmptyMediaError
from mediamill.media.sound import NoSoundError, Samples
from mediamill.processors.audio import AudioTranscriptionProcessor
from mediamill.processors.audio.transcribe import transcribe_file
from mediamill.processors.contract import ProcessorInput, ProcessorOutput
from mediamill.processors.models.whisper import UnknownLanguageError
from tests.media.making import make_film
from tests.media.speech import (
    AMIABLE,
    AMIABLE_WORDS,
    DASHWOOD,
    DASHWOOD_WORDS,
    melody,
    noise,
    read,
    silence,
    write,
)

AUDIO = ["audio/*"]


def likeness(text: str, words: str) -> float:
    """1: the same words."""
    return difflib.SequenceMatcher(None, re.findall(r"\w+", text.lower()), words.split()).ratio()


def write_nothing(path: Path) -> Path:
    with wave.open(str(path), "wb") as out:
        out.setparams((1, 2, 16_000, 0, "NONE", ""))
    return path


class Crash(BaseException):
    """The worker is gone."""


@dataclass
class Attempt:
    """One attempt at a file, and what it reported."""

    folder: Path
    checkpoint: Any = None
    crash: bool = False  # as soon as something is worth saving
    percents: list[float] = field(default_factory=list)
    checkpoints: list[Any] = field(default_factory=list)

    def run(self, path: Path, **payload: Any) -> ProcessorOutput:
        given = ProcessorInput(payload, None, path, self.folder, self.checkpoint, 1, self.report)
        return AudioTranscriptionProcessor(AUDIO, 60).process(given)

    def report(
        self,
        step: str | None = None,
        percent: float | None = None,
        parts: Mapping[str, Any] | None = None,
        checkpoint: Any = None,
    ) -> None:
        self.percents.append(percent or 0)
        self.checkpoints.append(checkpoint)
        if self.crash and checkpoint["segments"]:
            raise Crash


@pytest.fixture(scope="module")
def long_recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One sentence at the start, another after a minute."""
    path = tmp_path_factory.mktemp("long") / "memo.mp3"
    return write(path, [read(AMIABLE), silence(57), read(DASHWOOD)], "libmp3lame", 44_100)


@pytest.fixture(scope="module")
def whole(long_recording: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Attempt, ProcessorOutput]:
    """An attempt at the long recording that nothing interrupts."""
    attempt = Attempt(tmp_path_factory.mktemp("whole"))
    return attempt, attempt.run(long_recording)


@pytest.mark.spec("C26")
def test_a_voice_note_becomes_its_words(tmp_path: Path) -> None:
    output = Attempt(tmp_path).run(DASHWOOD)
    result = output.result
    assert likeness(result["content"], DASHWOOD_WORDS) > 0.95
    assert result["content"].startswith("And Mr. John Dashwood had then leisure")
    assert result["mime_type"] == "audio/ogg"
    assert result["models"][0].startswith("whisper-base@")
    facts = result["facts"]
    assert (facts["language"], facts["codec"], facts["cut_short"]) == ("en", "opus", False)
    assert facts["language_score"] > 0.8
    assert facts["duration_seconds"] == pytest.approx(7.1, abs=0.1)
    assert 4 < facts["speech_seconds"] <= facts["duration_seconds"]
    assert facts["segments"][0]["start"] < 1
    assert facts["segments"][-1]["end"] <= facts["duration_seconds"]
    assert output.files == {}


@pytest.mark.spec("C26", "V13")
def test_captions_are_made_when_previews_are_asked_for(tmp_path: Path) -> None:
    output = Attempt(tmp_path).run(AMIABLE, previews=True)
    assert output.files == {"captions.vtt": "captions.vtt"}
    captions = (tmp_path / "captions.vtt").read_text()
    assert captions.startswith("WEBVTT\nLanguage: en\n\n00:00:0")
    assert likeness(captions.split("\n")[-2], AMIABLE_WORDS) > 0.95


@pytest.mark.spec("C26")
def test_a_phone_recording_with_tags_is_understood(tmp_path: Path) -> None:
    path = write(
        tmp_path / "memo.wav", [read(AMIABLE), noise(2, 0.002)], "pcm_s16le", 8_000, tags={"title": "A memo"}
    )
    result = Attempt(tmp_path).run(path).result
    assert likeness(result["content"], AMIABLE_WORDS) > 0.8
    assert result["facts"]["sample_rate"] == 8_000
    assert result["facts"]["tags"]["title"] == "A memo"


@pytest.mark.spec("C26")
def test_the_speech_of_a_video_is_transcribed_in_its_time(tmp_path: Path) -> None:
    path = write(
        tmp_path / "film.mp4", [melody(6), read(AMIABLE)], "aac", 48_000, layout="stereo", picture=True
    )
    transcript = transcribe_file(path)
    assert likeness(" ".join(segment.text for segment in transcript.segments), AMIABLE_WORDS) > 0.8
    assert 5 < transcript.segments[0].start_seconds < 8
    assert transcript.duration_seconds == pytest.approx(9.3, abs=0.2)


@pytest.mark.spec("C26")
@pytest.mark.parametrize("sound", [silence(42), melody(42), noise(42)], ids=["silence", "music", "noise"])
def test_a_recording_without_speech_says_so(sound: Samples, tmp_path: Path) -> None:
    output = Attempt(tmp_path).run(write(tmp_path / "m.m4a", [sound], "aac", 44_100), previews=True)
    assert output.result["content"] == "[No speech in this recording (0:42)]"
    facts = output.result["facts"]
    assert (facts["language"], facts["segments"], facts["speech_seconds"]) == (None, [], 0)
    assert output.files == {}


@pytest.mark.spec("C26")
def test_the_first_half_of_a_torn_recording_is_transcribed(tmp_path: Path) -> None:
    path = tmp_path / "torn.opus"
    path.write_bytes(DASHWOOD.read_bytes()[:10_000])
    result = Attempt(tmp_path).run(path).result
    assert likeness(result["content"], " ".join(DASHWOOD_WORDS.split()[:10])) > 0.6
    assert result["facts"]["duration_seconds"] < 5


@pytest.mark.spec("C26", "V13")
def test_a_long_recording_has_times_and_captions(whole: tuple[Attempt, ProcessorOutput]) -> None:
    attempt, output = whole
    first, second = output.result["content"].split("\n\n")
    assert first.startswith("[0:00] He might even")
    assert re.match(r"\[1:0[01]\] And Mr\. John Dashwood", second)
    captions = (attempt.folder / output.files["captions.vtt"]).read_text()
    assert re.search(r"\n00:01:0[01]\.\d{3} --> 00:01:0\d\.\d{3}\nAnd Mr", captions)
    assert attempt.percents == sorted(attempt.percents)
    assert len(attempt.percents) >= 3


@pytest.mark.spec("C26")
def test_after_a_crash_the_same_text_comes_and_nothing_is_transcribed_twice(
    long_recording: Path, whole: tuple[Attempt, ProcessorOutput], tmp_path: Path
) -> None:
    crashed = Attempt(tmp_path, crash=True)
    with pytest.raises(Crash):
        crashed.run(long_recording)
    saved = crashed.checkpoints[-1]
    assert [text for _, _, text in saved["segments"]] == ["He might even have been made amiable himself."]
    # Whoever transcribed it again would not say this.
    saved["segments"][0][2] = "This was known."
    resumed = Attempt(tmp_path, checkpoint=saved).run(long_recording)
    expected = (
        whole[1].result["content"].replace("He might even have been made amiable himself.", "This was known.")
    )
    assert resumed.result["content"] == expected
    assert resumed.result["facts"]["language_score"] == whole[1].result["facts"]["language_score"]
    assert resumed.result["facts"]["speech_seconds"] == whole[1].result["facts"]["speech_seconds"]


@pytest.mark.parametrize("checkpoint", [7, {"model": "other@1"}, {"done_seconds": "x"}, [], {"segments": 1}])
def test_a_checkpoint_that_makes_no_sense_is_not_used(checkpoint: Any, tmp_path: Path) -> None:
    path = write(tmp_path / "s.wav", [silence(2)], "pcm_s16le")
    result = Attempt(tmp_path, checkpoint=checkpoint).run(path).result
    assert result["content"] == "[No speech in this recording (0:02)]"


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda path: make_film(path, "mp4", video="mpeg4"), NoSoundError),
        (write_nothing, EmptyMediaError),
    ],
    ids=["no audio track", "no samples"],
)
def test_a_file_without_sound_is_refused_with_a_reason(
    make: Callable[[Path], Path], error: type[Exception], tmp_path: Path
) -> None:
    with pytest.raises(error):
        transcribe_file(make(tmp_path / "file"))


def test_a_language_that_the_model_does_not_know_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDIAMILL_SPEECH_LANGUAGE", "xx")
    with pytest.raises(UnknownLanguageError, match="'xx'"):
        transcribe_file(AMIABLE)


def test_the_network_is_wanted_only_by_models_beyond_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    assert AudioTranscriptionProcessor(AUDIO, 60).network is False
    monkeypatch.setenv("MEDIAMILL_SPEECH", "openai")
    assert AudioTranscriptionProcessor(AUDIO, 60).network is True
