"""Lists become one: by ranks, what belongs together as one."""

from __future__ import annotations

from mediamill.search.fuse import MOST_MOMENTS, Row, best_moments, fuse
from mediamill.search.model import Piece, split_marks


def asset(number: int) -> Row:
    return Row(("asset", str(number)), "asset", number)


def scene(of: int, number: int) -> Row:
    return Row(("asset", str(of)), "scene", number)


def subjects(*lists: list[Row]) -> list[str]:
    named = dict(zip(("words", "meaning", "look"), lists, strict=False))
    return [fused.subject[1] for fused in fuse(named)]


def test_one_list_keeps_its_order() -> None:
    assert subjects([asset(3), asset(1), asset(2)]) == ["3", "1", "2"]


def test_what_two_lists_have_comes_before_the_first_of_either() -> None:
    assert subjects([asset(1), asset(2)], [asset(3), asset(2)])[0] == "2"


def test_many_scenes_of_one_video_push_nobody_away() -> None:
    crowd = [scene(1, number) for number in range(100)]
    fused = fuse({"words": [*crowd, asset(2)], "meaning": [asset(2)]})
    assert [one.subject[1] for one in fused] == ["2", "1"]


def test_moments_are_the_best_first_and_few_and_never_the_whole() -> None:
    rows = [asset(1), *(scene(1, number) for number in range(10))]
    (fused,) = fuse({"words": rows, "meaning": [scene(1, 7)]})
    moments = [row.id for row, _, _ in best_moments(fused)]
    assert moments[0] == 7
    assert len(moments) == MOST_MOMENTS
    assert fused.why == ["words", "meaning"]


def test_a_row_that_is_twice_in_a_list_counts_once() -> None:
    assert fuse({"words": [asset(1), asset(1)]})[0].score == fuse({"words": [asset(1)]})[0].score


def test_nothing_makes_nothing() -> None:
    assert fuse({}) == []
    assert fuse({"words": []}) == []


def test_marks_become_pieces() -> None:
    assert split_marks("a [b] c", "[", "]") == (Piece("a "), Piece("b", True), Piece(" c"))
    assert split_marks("[b][c]", "[", "]") == (Piece("b", True), Piece("c", True))
    assert split_marks("a [b", "[", "]") == (Piece("a "), Piece("b", True))
    assert split_marks("", "[", "]") == ()
