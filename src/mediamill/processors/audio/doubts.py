"""What a speech model says without having heard it: Whisper makes up text where there is little to hear. Pure."""

from __future__ import annotations

import re

NO_SPEECH = 0.6  # the model itself thinks that nobody speaks …
UNSURE = -0.7  # … and its words are unlikely (mean log probability)
HOPELESS = -1.5  # words this unlikely are noise, whatever else it thinks
REPETITIVE = 2.4  # text that shrinks more than this when packed goes round in circles
FASTEST_CHARACTERS_PER_SECOND = 40.0  # nobody speaks that fast
MOST_REPEATS = 3  # of a phrase in a row; "no, no, no" is speech, a hundred of them are not
_LONGEST_PHRASE = 12  # words

# Captions of films and videos that the models were taught with; they say them when they hear next to nothing.
_MADE_UP = re.compile(
    r"(thanks?( you)?( so much| very much)? for (watching|listening)"
    r"|(please )?(like and )?subscribe( to (my|the) channel)?"
    r"|subtitles? by .*|captions? by .*|.*amara\.org.*|untertitel(ung)? .*(zdf|ard|funk).*"
    r"|sous-titr(es|age) .*|продолжение следует|субтитры .*|ご視聴ありがとうございました|字幕.*)"
)
_MADE_UP_SHORT = frozenset({"you", "bye", "thank you", "thanks", "the", "so", "oh", "okay"})
SHORT_SPEECH_SECONDS = 1.0


def is_doubtful(
    text: str, *, no_speech: float, log_probability: float, compression: float, speech_seconds: float
) -> bool:
    """Was this made up? `speech_seconds`: how long somebody spoke, at most, while it was said."""
    if log_probability < HOPELESS or (no_speech > NO_SPEECH and log_probability < UNSURE):
        return True
    if compression > REPETITIVE and len(text) > 60:
        return True
    if len(text) > 8 + FASTEST_CHARACTERS_PER_SECOND * speech_seconds:
        return True
    bare = re.sub(r"[^\w\s.\-]", "", text.casefold()).strip(" .-")
    if _MADE_UP.fullmatch(bare):
        return no_speech > 0.1 or log_probability < -0.4 or speech_seconds < SHORT_SPEECH_SECONDS
    return bare in _MADE_UP_SHORT and no_speech > 0.4 and speech_seconds < SHORT_SPEECH_SECONDS


def collapse_repeats(text: str) -> str:
    """A phrase that is said over and over is kept a few times."""
    words = text.split()
    kept: list[str] = []
    index = 0
    while index < len(words):
        size, times = _repeats(words, index)
        kept += words[index : index + size * min(times, MOST_REPEATS)]
        index += size * times
    return " ".join(kept)


def _repeats(words: list[str], start: int) -> tuple[int, int]:
    """The phrase at `start` that comes more often in a row than is believed, and how often; or one word, once."""
    for size in range(1, _LONGEST_PHRASE + 1):
        phrase, times = words[start : start + size], 1
        while len(phrase) == size and words[start + size * times : start + size * (times + 1)] == phrase:
            times += 1
        if times > MOST_REPEATS:
            return size, times
    return 1, 1
