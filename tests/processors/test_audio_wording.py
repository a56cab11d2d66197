from __future__ import annotations

import pytest

from mediamill.processors.audio.doubts import collapse_repeats, is_doubtful
from mediamill.processors.audio.wording import clock, word_transcript
from mediamill.processors.models.contract import Segment, Transcript


def transcript(*segments: Segment, seconds: float, speech: float = 5, language: str = "en") -> Transcript:
    return Transcript(segments, language, 0.9, seconds, speech, "model@1")


@pytest.mark.spec("C26")
def test_a_short_recording_is_plain_text() -> None:
    said = transcript(Segment(0, 2, "Hello."), Segment(20, 22, "Are you there?"), seconds=30)
    assert word_transcript(said) == "Hello. Are you there?"


@pytest.mark.spec("C26")
def test_a_long_recording_has_paragraphs_with_times() -> None:
    said = transcript(
        Segment(3, 5, "Hello."), Segment(5, 9, "This is it."), Segment(65.5, 70, "Later."), seconds=90
    )
    assert word_transcript(said) == "[0:03] Hello. This is it.\n\n[1:05] Later."


def test_somebody_who_never_pauses_gets_paragraphs_at_the_ends_of_sentences() -> None:
    said = transcript(
        *(Segment(10 * n, 10 * n + 10, "and so on." if n % 2 else "so it goes") for n in range(12)),
        seconds=120,
    )
    assert [text[:6] for text in word_transcript(said).split("\n\n")] == ["[0:00]", "[1:00]"]


def test_languages_without_spaces_get_none() -> None:
    said = transcript(Segment(0, 2, "電球が"), Segment(2, 4, "ともっていた。"), seconds=5, language="ja")
    assert word_transcript(said) == "電球がともっていた。"


def test_recordings_without_words_say_so() -> None:
    assert word_transcript(transcript(seconds=42.9, speech=0)) == "[No speech in this recording (0:42)]"
    assert word_transcript(transcript(seconds=4000)) == "[No intelligible speech in this recording (1:06:40)]"


def test_times_are_read_as_on_a_clock() -> None:
    assert [clock(seconds) for seconds in (0, 9.99, 65, 3600)] == ["0:00", "0:09", "1:05", "1:00:00"]


def test_a_phrase_that_goes_round_in_circles_is_kept_three_times() -> None:
    assert collapse_repeats("no no no") == "no no no"
    assert collapse_repeats("I know. " * 50 + "Yes.") == "I know. I know. I know. Yes."
    assert collapse_repeats("a b c a b c a b d") == "a b c a b c a b d"


@pytest.mark.parametrize(
    ("text", "no_speech", "log_probability", "compression", "speech_seconds", "doubtful"),
    [
        ("See you tomorrow at nine.", 0.1, -0.3, 1.1, 2.0, False),
        ("See you tomorrow at nine.", 0.9, -0.3, 1.1, 2.0, False),  # sure of its words
        ("See you tomorrow at nine.", 0.9, -0.9, 1.1, 2.0, True),
        ("Skrbl grmpf.", 0.1, -1.8, 1.1, 2.0, True),
        ("la la la " * 20, 0.1, -0.3, 5.0, 20.0, True),
        ("A whole long sentence in a fifth of a second.", 0.1, -0.3, 1.1, 0.2, True),
        ("Thanks for watching!", 0.3, -0.3, 1.1, 2.0, True),
        ("Thanks for watching!", 0.01, -0.1, 1.1, 2.0, False),  # somebody may really say it
        ("Thank you.", 0.01, -0.2, 1.0, 0.8, False),
        ("you", 0.7, -0.5, 1.0, 0.3, True),
    ],
)
def test_made_up_words_are_told_from_heard_ones(
    text: str,
    no_speech: float,
    log_probability: float,
    compression: float,
    speech_seconds: float,
    doubtful: bool,
) -> None:
    found = is_doubtful(
        text,
        no_speech=no_speech,
        log_probability=log_probability,
        compression=compression,
        speech_seconds=speech_seconds,
    )
    assert found is doubtful
