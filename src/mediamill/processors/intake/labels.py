"""Which words of a document are labels, and of which fields.

Every field has its own label, its name, and the other names of the concept that it stands for. At each place the
longest label counts, also one that no field asks for: `Due date` is not the label of a field called `Date`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import takewhile

from mediamill.processors.intake.catalog import FieldSpec
from mediamill.processors.intake.concepts import CONCEPTS, WEAK, Concept
from mediamill.processors.intake.label_words import label_key, words_of

OWN, SYNONYM, DESCRIBED, PARTLY = 1.0, 0.96, 0.8, 0.7
RELATED_FREE, RELATED_TAKEN = (
    0.8,
    0.55,
)  # a label of a related concept that no other field, or one, stands for
MOST_WORDS, MISREAD_WORDS, MISREAD_CHARACTERS = 6, 4, 60
SHORT_KEY = 3
ALONE = re.compile(r"[.\s]*(?::|$)")  # what follows a label of two letters
BEFORE_VALUE = re.compile(r"[.\s]*(?::|$|\(|[\d€$£])")  # and one of three, such as VAT
ALIKE, MISREAD = 0.86, 0.85  # how alike a label read by OCR must be, and what that costs
QUOTED = re.compile(r"[\"“„'‘]([^\"”“'’]{2,40})[\"”“'’]")
KINDS = {"date": ("date",), "amount": ("amount", "number"), "number": ("number", "amount")}
RELATED = {"date": "invoice_date", "invoice_date": "date"}  # many papers have one date, and call it only that


@dataclass(frozen=True, slots=True)
class FieldMeaning:
    """A field as it is looked for."""

    spec: FieldSpec
    concept: Concept | None
    sure_concept: bool = True  # it is called so; not only described so

    @property
    def kind(self) -> str:
        """The shape of its values, if they are texts."""
        return self.concept.kind if self.concept and self.spec.type == "text" else ""

    def means(self, *concepts: str) -> bool:
        """Is it one of these?"""
        return self.concept is not None and self.concept.name in concepts


@dataclass(slots=True)
class Hit:
    """A label in a text. `meant`: the fields that it is a label of, with how surely; none for other labels."""

    start: int
    end: int
    meant: list[tuple[int, float]]


@dataclass(slots=True)
class LabelIndex:
    """All labels that are known, by key."""

    fields: list[FieldMeaning]
    _keys: dict[str, dict[int, float]] = field(default_factory=dict)
    _longest: int = 0
    _by_length: dict[int, list[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, specs: Sequence[FieldSpec]) -> LabelIndex:
        """The index of a catalog."""
        index = cls([_meaning(spec) for spec in specs])
        own = {label_key(words) for spec in specs for words in (spec.label, spec.name)}
        for concept in CONCEPTS.values():
            for phrase in (*concept.phrases, *concept.weak):
                index._keys.setdefault(label_key(phrase), {})
        for number, meaning in enumerate(index.fields):
            index._add_field(number, meaning, own)
        index._longest = max(map(len, index._keys), default=0)
        return index

    def _add_field(self, number: int, meaning: FieldMeaning, own: set[str]) -> None:
        spec = meaning.spec
        for words in (spec.label, spec.name):
            self._add(label_key(words), number, OWN)
        for words in QUOTED.findall(spec.description):
            self._add(label_key(words), number, SYNONYM)
        for key in _parts_of(spec.label):
            if key not in self._keys:  # what is a label of its own means something else
                self._add(key, number, PARTLY)
        if meaning.concept:
            weight = SYNONYM if meaning.sure_concept else DESCRIBED
            self._add_concept(meaning.concept, number, weight, own)
            if related := RELATED.get(meaning.concept.name):
                taken = any(other.means(related) for other in self.fields)
                self._add_concept(CONCEPTS[related], number, RELATED_TAKEN if taken else RELATED_FREE, set())

    def _add_concept(self, concept: Concept, number: int, weight: float, own: set[str]) -> None:
        for phrase in concept.phrases:
            if (key := label_key(phrase)) not in own:
                self._add(key, number, weight)
        for phrase in concept.weak:
            if (key := label_key(phrase)) not in own:
                self._add(key, number, weight * WEAK)

    def _add(self, key: str, number: int, weight: float) -> None:
        if key:
            meant = self._keys.setdefault(key, {})
            meant[number] = max(weight, meant.get(number, 0.0))

    def hits(self, text: str) -> list[Hit]:
        """The labels of a text from left to right, the longest at each place."""
        words = words_of(text)
        found: list[Hit] = []
        place = 0
        while place < len(words):
            for count in range(min(MOST_WORDS, len(words) - place), 0, -1):
                key = "".join(word.key for word in words[place : place + count])
                start, end = words[place].start, words[place + count - 1].end
                if len(key) <= self._longest and key in self._keys and _ends_word(text, key, start, end):
                    found.append(Hit(start, end, list(self._keys[key].items())))
                    place += count
                    break
            else:
                place += 1
        return found

    def misread(self, text: str) -> Hit | None:
        """A label at the start of a text that OCR read almost right."""
        words = list(takewhile(lambda word: not word.key.isdigit(), words_of(text)[:MISREAD_WORDS]))
        if len(text) > MISREAD_CHARACTERS and ":" not in text[:MISREAD_CHARACTERS]:
            return None
        for count in range(len(words), 0, -1):
            key = "".join(word.key for word in words[:count])
            near = get_close_matches(key, self._alike(len(key)), 1, ALIKE) if 6 <= len(key) <= 40 else []
            if near:
                meant = self._keys[near[0]].items()
                return Hit(0, words[count - 1].end, [(field, weight * MISREAD) for field, weight in meant])
        return None

    def _alike(self, length: int) -> list[str]:
        """Keys of fields that are long enough, and short enough, to be alike."""
        if not self._by_length:
            for key, meant in self._keys.items():
                if meant:
                    self._by_length.setdefault(len(key), []).append(key)
        near = range(int(length * 0.75), int(length / 0.75) + 1)
        return [key for size in near for key in self._by_length.get(size, ())]


def _ends_word(text: str, key: str, start: int, end: int) -> bool:
    """A label ends before a space or a colon; a short one must be followed by what follows labels."""
    after = text[end : end + 2]
    if len(after) == 2 and after[0] in "-_/@." and after[1].isalnum():
        return False
    needed = BEFORE_VALUE if len(key) == SHORT_KEY or "/" in text[start:end] else ALONE
    return len(key) > SHORT_KEY or needed.match(text, end) is not None


def _meaning(spec: FieldSpec) -> FieldMeaning:
    wanted = {label_key(spec.label), label_key(spec.name)}
    fitting = [concept for concept in CONCEPTS.values() if _fits(concept, spec)]
    for concept in fitting:
        if wanted & {label_key(phrase) for phrase in concept.phrases} or spec.name == concept.name:
            return FieldMeaning(spec, concept)
    described = label_key(spec.description)
    best = max(
        (
            (len(key), concept)
            for concept in fitting
            for key in map(label_key, concept.phrases)
            if key in described
        ),
        key=lambda found: found[0],
        default=(0, None),
    )
    return FieldMeaning(spec, best[1] if best[0] >= 8 else None, sure_concept=False)


def _fits(concept: Concept, spec: FieldSpec) -> bool:
    return concept.kind != "none" and (spec.type not in KINDS or concept.kind in KINDS[spec.type])


def _parts_of(label: str) -> list[str]:
    """A label of three words or more without its first or its last one."""
    words = [word.key for word in words_of(label)]
    return ["".join(words[1:]), "".join(words[:-1])] if len(words) >= 3 else []
