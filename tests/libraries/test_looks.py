"""What any tagger may say: what makes sense is kept to its length, the rest is left out."""

from __future__ import annotations

from typing import Any

import pytest

from mediamill.libraries.tagging import Look, read_looks, read_tags

NOTHING: dict[str, Any] = {"description": None, "tags": [], "noted": {}, "vectors": {}}


def test_all_that_makes_sense_is_kept() -> None:
    for of in ("asset", "scene", "frame"):
        said = {
            "of": of,
            "id": 7,
            "description": " A dog ",
            "tags": [{"label": " dog ", "score": 0.5, "more": 1}],
            "text": "KEEP OUT",
            "models": ["sees@1", "reads@2"],
            "error": "half of it is damaged",
            "meaning": "AAAA",
            "look": "BBBB",
        }
        assert read_looks([said]) == [
            Look(
                of,
                7,
                "A dog",
                [{"label": "dog", "score": 0.5}],
                {"text": "KEEP OUT", "models": ["sees@1", "reads@2"], "tag_error": "half of it is damaged"},
                {"meaning": "AAAA", "look": "BBBB"},
            )
        ]


@pytest.mark.parametrize("id_", [1, 2**63 - 1])
def test_a_look_that_says_nothing_is_one(id_: int) -> None:
    assert read_looks([{"of": "scene", "id": id_}]) == [Look("scene", id_, **NOTHING)]


@pytest.mark.parametrize(
    "odd",
    [
        None,
        "x",
        {"of": "asset"},
        {"of": "asset", "id": 0},
        {"of": "asset", "id": 2**63},
        {"of": "x", "id": 1},
    ],
)
def test_what_is_no_look_hides_none_behind_it(odd: Any) -> None:
    assert [look.id for look in read_looks([odd, {"of": "asset", "id": 7}, odd])] == [7]
    assert read_looks({"of": "asset", "id": 7}) == []


LONG: dict[str, tuple[Any, Any, Any]] = {
    "a description": (
        {"description": "d" * 5_000},
        {"description": "d" * 5_001},
        lambda look: look.description,
    ),
    "words": ({"text": "w" * 10_000}, {"text": "w" * 10_001}, lambda look: look.noted["text"]),
    "an error": ({"error": "e" * 100}, {"error": "e" * 101}, lambda look: look.noted["tag_error"]),
    "models": ({"models": ["m"] * 10}, {"models": ["m"] * 11}, lambda look: look.noted["models"]),
    "a model": (
        {"models": ["m" * 100]},
        {"models": ["m" * 101, None, ""]},
        lambda look: look.noted["models"],
    ),
    "tags": ({"tags": [{"label": "t"}] * 50}, {"tags": [{"label": "t"}] * 51}, lambda look: look.tags),
    "a label": ({"tags": [{"label": "t" * 100}]}, {"tags": [{"label": "t" * 101}]}, lambda look: look.tags),
}


@pytest.mark.parametrize("what", LONG)
def test_what_is_too_long_is_cut_and_what_just_fits_is_not(what: str) -> None:
    most, longer, part = LONG[what]
    (fits,), (cut,) = (read_looks([{"of": "asset", "id": 1, **said}]) for said in (most, longer))
    assert part(fits) == part(cut)
    (name,) = most
    given = most[name]
    assert part(fits) == ([{**tag, "score": None} for tag in given] if name == "tags" else given)


def test_a_thousand_looks_are_read() -> None:
    said = [{"of": "frame", "id": number} for number in range(1, 1_002)]
    assert [look.id for look in read_looks(said)] == list(range(1, 1_001))


@pytest.mark.parametrize(
    ("given", "score"),
    [
        (0.5, 0.5),
        (1, 1.0),
        (7, 1.0),
        (-1, 0.0),
        ("1", None),
        (None, None),
        (True, None),
        (float("inf"), None),
    ],
)
def test_a_score_is_a_share_or_none(given: Any, score: float | None) -> None:
    assert read_tags([{"label": "a", "score": given}]) == [{"label": "a", "score": score}]


@pytest.mark.parametrize("odd", [None, "dog", {"score": 1}, {"label": " \0 "}, {"label": 7}])
def test_a_tag_without_a_label_hides_none_behind_it(odd: Any) -> None:
    assert [tag["label"] for tag in read_tags([odd, {"label": "a\0b"}, odd])] == ["ab"]
    assert read_tags(odd) == []


@pytest.mark.parametrize("vector", [None, 1, ["AAAA"]])
def test_a_vector_is_text(vector: Any) -> None:
    (look,) = read_looks([{"of": "asset", "id": 1, "meaning": vector, "look": "AAAA"}])
    assert look.vectors == {"look": "AAAA"}
