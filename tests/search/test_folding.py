"""Words are found whatever accents they are written with, and Chinese and Japanese without any spaces."""

from __future__ import annotations

import pytest

from mediamill.search.words import as_phrases
from tests.search.ground import Ground

pytestmark = pytest.mark.spec("L12")

NFD = "re\N{COMBINING ACUTE ACCENT}sume\N{COMBINING ACUTE ACCENT}"


@pytest.mark.parametrize(
    ("written", "asked"),
    [
        ("a café by the sea", "cafe"),
        ("a cafe by the sea", "café"),
        ("a CAFÉ by the sea", "Café"),
        (f"my {NFD}", "résumé"),
        ("my résumé", NFD),
        ("Straße in Łódź", "strasse lodz"),
        ("Ørsted, Smørrebrød", "orsted smorrebrod"),
        ("an œuvre of \N{LATIN SMALL LIGATURE FI}re", "oeuvre fire"),
        ("Ёлка и Крым", "елка крым"),
        ("\N{FULLWIDTH LATIN CAPITAL LETTER A}BC", "abc"),
    ],
)
async def test_with_or_without_accents_is_the_same(ground: Ground, written: str, asked: str) -> None:
    library = await ground.library()
    await ground.asset(library, "a.jpg", written)
    await ground.asset(library, "b.jpg", "something else")
    assert await ground.titles(asked) == ["a.jpg"]


async def test_names_as_some_systems_write_them_are_whole_words(ground: Ground) -> None:
    await ground.asset(await ground.library(), f"2019/{NFD}_Zürich.jpg")
    assert len(await ground.titles("resume zurich")) == 1
    assert await ground.titles("sume") == []


async def test_what_must_not_be_in_it_must_not_with_any_accent(ground: Ground) -> None:
    library = await ground.library()
    await ground.asset(library, "a.jpg", "tea in a café")
    await ground.asset(library, "b.jpg", "tea at home")
    assert await ground.titles("tea -cafe") == ["b.jpg"]
    assert await ground.titles("tea -café") == ["b.jpg"]
    assert await ground.titles('"a cafe"') == ["a.jpg"]


async def test_what_was_searched_for_is_marked_with_its_accents(ground: Ground) -> None:
    await ground.asset(await ground.library(), "a.jpg", "a café by the sea")
    hit = await ground.one("café")
    assert [piece.text for piece in hit.snippet if piece.marked] == ["café"]


async def test_a_part_of_a_chinese_or_japanese_text_is_found_and_its_order_counts(ground: Ground) -> None:
    library = await ground.library()
    await ground.asset(library, "a.jpg", "我们在北京大学看见了一只猫")
    await ground.asset(library, "b.jpg", "東京タワーの夜景")
    assert await ground.titles("北京") == ["a.jpg"]
    assert await ground.titles("猫 大学") == ["a.jpg"]
    assert await ground.titles("京北") == []
    assert await ground.titles("タワー") == ["b.jpg"]
    assert await ground.titles('"京タワー"') == ["b.jpg"]
    assert sorted(await ground.titles("京")) == ["a.jpg", "b.jpg"]
    assert sorted(await ground.titles("京 -夜景")) == ["a.jpg"]


async def test_korean_and_thai_are_left_as_they_are(ground: Ground) -> None:
    await ground.asset(await ground.library(), "a.jpg", "서울 야경")
    assert await ground.titles("서울") == ["a.jpg"]


def test_only_runs_outside_of_quotes_become_phrases() -> None:
    assert as_phrases("dog 北京 -猫犬 猫") == 'dog "北京" -"猫犬" 猫'
    assert as_phrases('"北京 dog" 大学') == '"北京 dog" "大学"'
    assert as_phrases("plain or words") == "plain or words"
