"""Boxes in, order out: columns one after the other, tables row by row."""

from __future__ import annotations

import math

import pytest

from mediamill.processors.models.contract import TextLine
from mediamill.processors.models.local_reader import in_reading_order
from mediamill.processors.reading_order import Piece, order_blocks

HEIGHT, STEP = 20.0, 27.0
PROSE = "words enough to be a line of prose"


def column(name: str, left: float, count: int, *, top: float = 0.0, width: float = 300.0) -> list[Piece]:
    """Lines of prose below each other, with edges as uneven as those that a detector of text finds."""
    return [
        Piece(
            f"{name}{number} {PROSE}",
            left + (number * 7) % 4,
            top + number * STEP + (number * 5) % 3,
            left + width - (number * 11) % 5,
            top + number * STEP + HEIGHT,
        )
        for number in range(count)
    ]


def cell(text: str, left: float, top: float, width: float = 80.0) -> Piece:
    return Piece(text, left, top, left + width, top + HEIGHT)


def turned(piece: Piece, degrees: float) -> Piece:
    """The upright box around a line that is drawn askew."""
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    corners = [(x, y) for x in (piece.left, piece.right) for y in (piece.top, piece.bottom)]
    across, down = [x * cos - y * sin for x, y in corners], [x * sin + y * cos for x, y in corners]
    return Piece(piece.text, min(across), min(down), max(across), max(down))


def order(pieces: list[Piece]) -> list[str]:
    """Names of the pieces as they are read, given in an order that helps nobody."""
    shuffled = sorted(pieces, key=lambda piece: piece.text[::-1] + str(piece.top * 7919 % 101))
    return [piece.text.split()[0] for rows in order_blocks(shuffled) for row in rows for piece in row]


def names(pieces: list[Piece]) -> list[str]:
    return [piece.text.split()[0] for piece in pieces]


@pytest.mark.parametrize("count", [3, 16])
def test_two_columns_are_read_one_after_the_other(count: int) -> None:
    page = column("a", 36, count) + column("b", 360, count)
    assert order(page) == names(page)


def test_three_columns_are_read_one_after_the_other() -> None:
    page = column("a", 0, 9) + column("b", 330, 9) + column("c", 660, 9)
    assert order(page) == names(page)


@pytest.mark.parametrize(("left", "right"), [(4, 15), (15, 4)])
def test_columns_may_be_of_different_length(left: int, right: int) -> None:
    page = column("a", 0, left) + column("b", 330, right)
    assert order(page) == names(page)


def test_columns_may_have_lines_at_different_heights() -> None:
    page = column("a", 0, 12) + column("b", 330, 12, top=13)
    assert order(page) == names(page)


def test_a_headline_is_read_before_the_columns_under_it_and_a_footer_after_them() -> None:
    headline = [Piece("headline over both", 100, 0, 550, 40)]
    columns = column("a", 0, 8, top=60) + column("b", 330, 8, top=60)
    page = headline + columns + [Piece("footer under both", 200, 300, 450, 318)]
    assert order(page) == names(page)


def test_columns_under_columns_are_read_after_them() -> None:
    above = column("a", 0, 5) + column("b", 330, 5)
    between = [Piece("headline between them", 0, 150, 630, 180)]
    page = above + between + column("c", 0, 4, top=200) + column("d", 330, 4, top=200)
    assert order(page) == names(page)


def test_short_cells_stay_in_their_rows() -> None:
    rows = [("08:14", "Gothenburg", "Platform"), ("11:36", "Stockholm", "Track"), ("12:05", "Uppsala", "Bay")]
    page = [
        cell(text, left, number * STEP)
        for number, row in enumerate(rows * 3)
        for text, left in zip(row, (0.0, 120.0, 300.0), strict=True)
    ]
    assert order(page) == names(page)


def test_a_form_of_short_names_and_long_answers_stays_in_rows() -> None:
    answers = column("answer", 150, 6)
    page = [
        piece
        for number, answer in enumerate(answers)
        for piece in (cell(f"name{number}", 0, answer.top), answer)
    ]
    assert order(page) == names(page)


def test_messages_at_either_side_of_a_chat_stay_in_the_order_of_time() -> None:
    page = [
        Piece(f"{number} {PROSE}", left, number * 50.0, left + 300, number * 50.0 + HEIGHT)
        for number, left in enumerate((0.0, 330.0, 0.0, 330.0, 330.0, 0.0, 330.0, 0.0))
    ]
    assert order(page) == names(page)


@pytest.mark.parametrize("degrees", [-2.0, -1.0, 1.0, 2.0])
def test_columns_that_are_slightly_askew_are_still_columns(degrees: float) -> None:
    page = column("a", 0, 12) + column("b", 340, 12)
    assert order([turned(piece, degrees) for piece in page]) == names(page)


@pytest.mark.parametrize("degrees", [-2.0, 2.0])
def test_the_short_last_line_of_a_paragraph_askew_stays_the_last(degrees: float) -> None:
    page = [*column("a", 0, 6, width=500), Piece("end.", 0, 6 * STEP, 60, 6 * STEP + HEIGHT)]
    page += column("b", 0, 3, top=7 * STEP, width=500)
    assert order([turned(piece, degrees) for piece in page]) == names(page)


def test_indents_in_a_single_column_change_nothing() -> None:
    page = [
        Piece(f"{number} {PROSE}", indent, number * STEP, 400, number * STEP + HEIGHT)
        for number, indent in enumerate((30.0, 0.0, 0.0, 60.0, 60.0, 90.0, 0.0, 30.0))
    ]
    assert order(page) == names(page)


def test_nothing_has_no_order() -> None:
    assert order_blocks([]) == []


def test_lines_of_an_image_are_read_by_columns() -> None:
    page = column("a", 0, 5) + column("b", 330, 5)
    lines = [TextLine(each.text, 0.9, (each.left, each.top, each.right, each.bottom)) for each in page]
    across = [line for pair in zip(lines[:5], lines[5:], strict=True) for line in pair]
    assert in_reading_order(across) == lines
