"""What is shown of a text that was found: marks around what was searched for, an ellipsis where it is cut."""

from __future__ import annotations

import pytest

from mediamill.search.model import Piece
from tests.search.ground import Ground

WORDS = "one two three four five six seven eight nine ten eleven twelve"
LONG = f"Begin. {WORDS}, {WORDS}, {WORDS}, {WORDS}, a dog, {WORDS}, {WORDS}, {WORDS}, {WORDS}, end."


async def snippet(ground: Ground, text: str, words: str = "") -> str:
    """As it is shown, with what is marked in brackets."""
    await ground.asset(await ground.library(), "a.jpg", text)
    return told((await ground.one(words)).snippet)


def told(pieces: tuple[Piece, ...]) -> str:
    return "".join(f"[{piece.text}]" if piece.marked else piece.text for piece in pieces)


@pytest.mark.spec("L12")
@pytest.mark.parametrize(
    "text",
    [
        "A <b>dog</b> & a <script>alert(1)</script>",
        "a < dog > b <!-- c --> <d",
        "<img src=x onerror=y>dog</img>",
    ],
)
async def test_what_looks_like_a_tag_is_shown_as_it_is(ground: Ground, text: str) -> None:
    assert await snippet(ground, text, "dogs") == text.replace("dog", "[dog]")


@pytest.mark.spec("L12")
async def test_in_a_long_text_too(ground: Ground) -> None:
    shown = await snippet(ground, f"{WORDS} {WORDS} <i>dog</i> <u>of a stranger {WORDS} {WORDS}", "dog")
    assert "<i>[dog]</i> <u>of a stranger" in shown


@pytest.mark.spec("L12")
async def test_a_short_text_is_shown_whole(ground: Ground) -> None:
    text = f"{WORDS}, and at the very end there is a dog, as there should be."
    assert await snippet(ground, text, "dog") == text.replace("dog", "[dog]")


@pytest.mark.spec("L12")
async def test_an_ellipsis_stands_where_something_is_left_out(ground: Ground) -> None:
    both = await snippet(ground, LONG, "dog")
    assert both.startswith("… ")
    assert both.endswith(" …")
    assert "a [dog]," in both
    assert len(both) < len(LONG)


@pytest.mark.spec("L12")
@pytest.mark.parametrize(("word", "begins", "ends"), [("begin", True, False), ("end", False, True)])
async def test_and_only_there(ground: Ground, word: str, begins: bool, ends: bool) -> None:
    shown = await snippet(ground, LONG, word)
    assert (not shown.startswith("…"), not shown.endswith("…")) == (begins, ends)


async def test_between_two_places_stands_one_too(ground: Ground) -> None:
    shown = await snippet(ground, LONG, "begin or end")
    assert shown.count("…") == 1
    assert " … " in shown


async def test_without_words_it_is_the_beginning_up_to_a_word(ground: Ground) -> None:
    shown = await snippet(ground, LONG)
    assert shown.endswith(" …")
    assert LONG.startswith(shown.removesuffix(" …") + " ")
    assert 250 < len(shown) <= 302


async def test_a_name_that_was_found_shows_the_beginning_of_the_text(ground: Ground) -> None:
    await ground.asset(
        await ground.library(), "lighthouse.jpg", "A tower by the sea, white and tall, in the evening"
    )
    assert (
        told((await ground.one("lighthouse")).snippet) == "A tower by the sea, white and tall, in the evening"
    )


async def test_one_endless_word_is_cut_as_well(ground: Ground) -> None:
    shown = await snippet(ground, "字" * 5000)
    assert shown.endswith(" …")
    assert 250 < len(shown) <= 302


async def test_marks_of_a_stranger_are_taken_out(ground: Ground) -> None:
    shown = await snippet(ground, "a \x01big\x02 bad\x03 dog\x04s", "dogs")
    assert shown == "a big bad [dogs]"


async def test_tags_alone_are_shown_without_a_lead(ground: Ground) -> None:
    await ground.asset(await ground.library(), "a.jpg", "", tags=["dog", "sand"])
    assert told((await ground.one("dog")).snippet) == "[dog], sand"


@pytest.mark.spec("L12")
async def test_of_a_film_it_is_what_is_said_of_the_moment(ground: Ground) -> None:
    film = await ground.asset(await ground.library(), "a.mp4", "a cat, a dog, a cup", type="video")
    await ground.scene(film, 1, "a cat sleeps")
    await ground.scene(film, 2, "a dog barks")
    assert told((await ground.one("dogs")).snippet) == "a [dog] barks"
    assert told((await ground.one("cup")).snippet) == "a cat, a dog, a [cup]"
