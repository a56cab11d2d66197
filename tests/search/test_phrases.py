"""Words in quotes: they follow each other, and the index knows which do."""

from __future__ import annotations

import itertools

import pytest

from mediamill.search.words import as_phrases, needed_phrases
from tests.search.ground import Ground

pytestmark = pytest.mark.spec("L12")

TEXTS = (
    "A photo of the old harbour with w3 and w3 near the light-house at 10:30",
    "the cat, the dog & the cat again: cat dog cat",
    "See https://example.com/a/b?c=d or write to anna.b@example.com (v1.2.3, -5 %)",
    "我们在北京大学看见了一只猫 and a dog",
    "東京タワーの夜景",
    "Ёлка и Крым, Straße in Łódź; don't stop",
)


@pytest.mark.parametrize("text", TEXTS)
async def test_every_part_of_a_text_is_found_as_a_phrase(ground: Ground, text: str) -> None:
    """Whatever the parser makes of it: what the query asks for, the index has."""
    words = text.replace('"', " ").split()
    parts = [" ".join(words[begin:end]) for begin, end in itertools.combinations(range(len(words) + 1), 2)]
    found = await ground.value(
        """select array_agg(part) from unnest($2::text[]) part, findable($1, null, null, null) said
        where said @@ websearch_to_tsquery('english', folded('"' || part || '"'))
            and not word_pairs(said) @> word_pairs(to_tsvector('english', folded(part)))""",
        text,
        parts,
    )
    assert found is None
    matched = await ground.value(
        """select count(*) from unnest($2::text[]) part, findable($1, null, null, null) said
        where said @@ websearch_to_tsquery('english', folded('"' || part || '"'))""",
        text,
        parts,
    )
    assert matched > len(parts) / 2


async def test_what_stands_between_the_words_of_a_phrase_counts(ground: Ground) -> None:
    library = await ground.library()
    await ground.asset(library, "a.jpg", "a cup of tea")
    await ground.asset(library, "b.jpg", "a cup with tea")
    await ground.asset(library, "c.jpg", "a cup green tea")
    await ground.asset(library, "d.jpg", "tea in a cup")
    await ground.asset(library, "e.jpg", "a cup, tea")
    assert sorted(await ground.titles('"cup of tea"')) == ["a.jpg", "b.jpg"]
    assert await ground.titles('"cup tea"') == ["e.jpg"]
    assert sorted(await ground.titles('cup -"cup of tea"')) == ["d.jpg", "e.jpg"]
    assert sorted(await ground.titles('"cup tea" or green')) == ["c.jpg", "e.jpg"]


@pytest.mark.parametrize(
    ("words", "phrases", "rest"),
    [
        ('old "a cup" -tea "of tea"', ["a cup", "of tea"], "old -tea"),
        ('old -"a cup" - "of tea" new', [], "old new"),
        ('-old "a cup"', ["a cup"], "-old"),
        ('"a cup" OR tea', [], '"a cup" OR tea'),
        ('"this or that"', ["this or that"], ""),
        ('not closed "a cup', ["a cup"], "not closed"),
        (as_phrases("北京 -大学 猫"), ["北京"], "猫"),
    ],
)
def test_only_phrases_that_must_be_there_are_asked_of_the_index(
    words: str, phrases: list[str], rest: str
) -> None:
    needed, plain = needed_phrases(words)
    assert (needed, plain.split()) == (phrases, rest.split())
