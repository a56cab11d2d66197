"""What a conversation is told of an image."""

from __future__ import annotations

import pytest

from mediamill.processors.image.wording import Seen, describe, look_sentence, shape, text_blocks
from mediamill.processors.models.contract import TextLine
from mediamill.processors.result import Tag
from tests.processors.seeing import lines

pytestmark = pytest.mark.spec("C26")


def tags(**scores: float) -> list[Tag]:
    return [Tag(label.replace("_", " "), score, "model@1") for label, score in scores.items()]


def test_tags_are_told_by_how_sure_they_are() -> None:
    seen = Seen(tags=tags(street=0.6, bus=0.9, bicycle=0.2, whale=0.1))

    assert describe(seen) == "Probably: bus, street. Perhaps: bicycle."


def test_a_label_is_told_once() -> None:
    assert describe(Seen(tags=[*tags(cat=0.5), *tags(cat=0.9)])) == "Probably: cat."


def test_at_most_six_tags_are_told() -> None:
    many = tags(**{f"thing_{number}": 0.9 - number / 100 for number in range(20)})

    assert describe(Seen(tags=many)).count("thing") == 6


def test_low_scores_and_no_tags_are_told_as_nothing() -> None:
    nothing = "Nothing was recognised with confidence in this image."

    assert describe(Seen()) == nothing
    assert describe(Seen(tags=tags(whale=0.1))) == nothing


def test_the_sentence_of_a_model_is_told_as_it_is() -> None:
    seen = Seen(tags=tags(bus=0.9), description=" A red bus in the rain. \n")

    assert describe(seen) == "A red bus in the rain."


def test_text_alone_is_told_as_all_there_is() -> None:
    assert describe(Seen(lines=lines("Exit"))) == (
        "Text is all that was recognised in this image.\nText in the image: Exit"
    )


def test_everything_comes_in_its_order() -> None:
    seen = Seen(
        tags=tags(menu=0.8),
        lines=lines("Soup 4.50", "Bread 2.00"),
        look="(Portrait, 30 × 40 pixels)",
        truncated=True,
        frames=12,
    )

    assert describe(seen).splitlines() == [
        "Animated image of 12 frames.",
        "Probably: menu.",
        "Text in the image:",
        "Soup 4.50",
        "Bread 2.00",
        "(Portrait, 30 × 40 pixels)",
        "(The file is damaged: a part of the image is missing.)",
    ]


def test_pieces_of_a_row_are_joined_and_blocks_are_set_apart() -> None:
    pieces = [
        TextLine("Total", 0.9, (0, 0, 50, 20)),
        TextLine("17.00", 0.9, (200, 2, 250, 22)),
        TextLine("Thank you", 0.9, (0, 24, 90, 44)),
        TextLine("Mill Street 1", 0.9, (0, 90, 90, 110)),
        TextLine("second column", 0.9, (300, 0, 390, 20)),
    ]

    assert text_blocks(pieces) == ["Total  17.00", "Thank you", "", "Mill Street 1", "", "second column"]


def test_long_text_is_kept_up_to_a_bound_and_empty_lines_are_not_told() -> None:
    told = text_blocks(lines(*(["word " * 50] * 800), "  "))

    assert len(told) == 500
    assert all(len(line) == 249 for line in told)
    assert text_blocks(lines(" ", "")) == []


@pytest.mark.parametrize(
    ("width", "height", "name"),
    [(400, 300, "landscape"), (300, 400, "portrait"), (300, 300, "square"), (1000, 990, "square")],
)
def test_the_shape_has_a_name(width: int, height: int, name: str) -> None:
    assert shape(width, height) == name


def test_the_look_is_one_sentence() -> None:
    plain = look_sentence(400, 300, [], None, None)
    full = look_sentence(400, 300, ["blue", "white", "red"], "2024-05-01T12:30:00+02:00", "Mill One")

    assert plain == "(Landscape, 400 × 300 pixels)"
    assert full == (
        "(Landscape, 400 × 300 pixels, mostly blue and white; taken on 2024-05-01 at 12:30 with Mill One)"
    )
