"""What any worker may say of a file: what makes sense is kept as it is, the rest is left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from mediamill.db.connection import Connection
from mediamill.engine.model import Moved
from mediamill.intake.result import Analysed, BadResultError, read_result
from tests.intake.played import FIELDS, found

pytestmark = pytest.mark.spec("P3", "P4")

HOME = "intake/outputs/007/1007-12-3"
PAYLOAD = {"fields": [{"name": field.name, "type": field.type} for field in FIELDS]}


async def read(folder: Path, subject: str = "1007", **said: Any) -> Analysed:
    """What is kept of a result that says this. In a folder nobody asks the database."""
    told = {"content": "text", "kind": "document", **said}
    job = Moved(12, "file.analyse", "project:1", subject, 1, PAYLOAD, result=told)
    return await read_result(cast(Connection, None), folder, job)


def files(*names: str, home: str = HOME) -> dict[str, Any]:
    return {name: {"path": f"{home}/{name}", "bytes": 1} for name in names}


def draw(folder: Path, pages: Any) -> dict[str, Any]:
    """The texts of pages, as a processor writes them; the files that it names."""
    (folder / HOME).mkdir(parents=True)
    (folder / HOME / "pages.json").write_text(pages if isinstance(pages, str) else json.dumps(pages))
    return files("pages.json", "page-00001.webp", "thumbnail.jpg")


async def test_all_that_makes_sense_is_kept(tmp_path: Path) -> None:
    field = found("total", "12,50", raw="EUR  12,50", unit="EUR", page=2, quote="Total: 12,50")
    page = {"number": 1, "width": 1240, "height": 1754, "image": "page-00001.webp", "label": " Page  i "}
    kept = await read(
        tmp_path,
        files=draw(tmp_path, [{"number": 1, "label": "i\n", "text": "Dear Ada"}]),
        summary="short",
        mime_type="application/vnd.oasis.opendocument.text",
        unsupported="a  part of it",
        pages=[page],
        fields=[field],
        tags=[{"tag": "invoice"}],
        models=["rules@1", "big\nmodel"],
        facts={"pages": 1},
    )
    assert kept == Analysed(
        "text",
        "short",
        "application/vnd.oasis.opendocument.text",
        {
            "kind": "document",
            "rounds": 1,
            "unmapped": [],
            "unsupported": "a part of it",
            "pages": [{**page, "label": "Page i"}],
            "fields": [{**field, "value": "12.50", "raw": "EUR 12,50"}],
            "tags": [{"tag": "invoice"}],
            "models": ["rules@1", "big model"],
            "facts": {"pages": 1},
            "thumbnail": True,
        },
        HOME,
        [{"number": 1, "label": "i", "text": "Dear Ada"}],
    )


async def test_a_result_of_text_alone_is_one(tmp_path: Path) -> None:
    nothing: dict[str, Any] = {
        "unsupported": None,
        "pages": [],
        "fields": [],
        "tags": [],
        "models": [],
        "facts": {},
        "rounds": 1,
        "unmapped": [],
    }
    for kind in ("document", "image", "unsupported"):
        told = {"kind": kind, "thumbnail": False, **nothing}
        assert await read(tmp_path, kind=kind) == Analysed("text", "", None, told, None, [])


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"content": None}, "no text"),
        ({"kind": "essay"}, "of no kind that is known: 'essay'"),
        ({"files": files("a", home="videos/1/2-12-3")}, "not its own"),
        ({"files": files("a", home=HOME.replace("-12-", "-13-"))}, "not its own"),
        ({"files": files("a", home="intake/outputs/008/1008-12-3")}, "not its own"),
        ({"files": files("a", home=f"x/{HOME}")}, "not its own"),
        ({"files": files("../a")}, "not its own"),
        ({"files": files("a") | files("b", home=f"{HOME}4")}, "not its own"),
        ({"files": {"a": {"bytes": 1}}}, "not its own"),
    ],
)
async def test_a_result_that_is_none_is_refused_with_the_reason(
    tmp_path: Path, said: dict[str, Any], why: str
) -> None:
    with pytest.raises(BadResultError, match=why) as refused:
        await read(tmp_path, **said)
    assert refused.value.code == "bad_result"


LONG: Any = {
    "a summary": ("summary", "s" * 5_000, lambda kept: kept.summary),
    "a reason": ("unsupported", "u" * 500, lambda kept: kept.told["unsupported"]),
    "models": ("models", ["m"] * 20, lambda kept: kept.told["models"]),
    "pages": (
        "pages",
        [{"number": 1, "label": "x", "width": None, "height": None, "image": None}] * 2_000,
        lambda kept: kept.told["pages"],
    ),
    "the words around a value": (
        "fields",
        [found("total", "1", raw="r" * 2_000, unit="u" * 50, quote="q" * 500)],
        lambda kept: kept.told["fields"],
    ),
}


@pytest.mark.parametrize("what", LONG)
async def test_what_is_too_long_is_cut_and_what_just_fits_is_not(tmp_path: Path, what: str) -> None:
    name, most, look = LONG[what]
    assert look(await read(tmp_path, **{name: most})) == most
    if isinstance(most, str):
        longer: Any = most + "!"
    elif what.startswith("the words"):
        longer = [{**most[0], **{part: most[0][part] + "!" for part in ("raw", "unit", "quote")}}]
    else:
        longer = [*most, most[0]]
    assert look(await read(tmp_path, **{name: longer})) == most


async def test_lists_and_facts_that_would_fill_the_database_are_left_out(tmp_path: Path) -> None:
    fits = {"a": "x" * (50_000 - len('{"a": ""}'))}
    assert (await read(tmp_path, facts=fits)).told["facts"] == fits
    assert (await read(tmp_path, facts={"a": fits["a"] + "x"})).told["facts"] == {}
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    for odd in (deep, {"a": 1}, "tags", None, [float("nan")], 7):
        assert (await read(tmp_path, tags=odd)).told["tags"] == []
    assert (await read(tmp_path, facts={"a": "b\0"})).told["facts"] == {"a": "b\N{REPLACEMENT CHARACTER}"}


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ([0, 0.5, 1, 1], [0.0, 0.5, 1.0, 1.0]),
        ([0.5, 0.5, 0.5, 0.5], [0.5, 0.5, 0.5, 0.5]),
        ([-1, 0, 2, 0.5], [0.0, 0.0, 1.0, 0.5]),
        ([0.6, 0, 0.5, 1], None),
        ([0, 0.6, 1, 0.5], None),
        ([0, 0, 1], None),
        ([0, 0, 1, 1, 1], None),
        ([0, 0, 1, True], None),
        ([0, None, 1, 1], None),
        ([0, 0, float("inf"), 1], None),
        ("0011", None),
        (None, None),
    ],
)
async def test_a_box_is_a_part_of_the_page_or_none(tmp_path: Path, given: Any, kept: Any) -> None:
    (field,) = (await read(tmp_path, fields=[found("total", "1", box=given)])).told["fields"]
    assert field["box"] == kept


@pytest.mark.parametrize(
    ("given", "kept"),
    [(0.25, 0.25), (7, 1.0), (-1, 0.0), ("high", 0.0), (True, 0.0), (None, 0.0), (float("nan"), 0.0)],
)
async def test_a_confidence_is_a_share(tmp_path: Path, given: Any, kept: float) -> None:
    (field,) = (await read(tmp_path, fields=[found("total", "1", confidence=given)])).told["fields"]
    assert field["confidence"] == kept


@pytest.mark.parametrize(
    ("given", "is_one"),
    [(1, True), (999_999, True), (1_000_000, False), (0, False), (True, False), ("1", False)],
)
async def test_a_page_has_a_number_and_its_picture_a_size(tmp_path: Path, given: Any, is_one: bool) -> None:
    kept = await read(
        tmp_path,
        fields=[found("total", "1", page=given)],
        pages=[{"number": given}, {"number": 2, "width": given, "height": 3}, {"number": 4, "height": given}],
        files=draw(tmp_path, [{"number": given, "text": "a"}, {"number": 2, "text": "b"}]),
    )
    expected = given if is_one else None
    assert kept.told["fields"][0]["page"] == expected
    assert [(page["number"], page["width"], page["height"]) for page in kept.told["pages"]] == [
        *([(given, None, None)] if is_one else []),
        (2, expected, 3),
        (4, None, expected),
    ]
    assert [page["number"] for page in kept.page_texts] == [*([given] if is_one else []), 2]


async def test_a_page_shows_only_a_picture_that_the_job_has_left(tmp_path: Path) -> None:
    names = ("page-00001.webp", "page-00002.webp", "page-1.webp", "thumbnail.jpg", 7, None)
    pages = [{"number": number, "image": name} for number, name in enumerate(names, 1)]
    kept = await read(tmp_path, pages=["?", *pages], files=files("page-00001.webp", "page-1.webp"))
    assert [page["image"] for page in kept.told["pages"]] == ["page-00001.webp", *[None] * 5]
    assert [page["label"] for page in kept.told["pages"]] == [f"Page {number}" for number in range(1, 7)]
    assert (kept.output, kept.told["thumbnail"], kept.page_texts) == (HOME, False, [])


async def test_of_a_field_three_different_values_are_kept_and_what_follows_is_looked_at(
    tmp_path: Path,
) -> None:
    given: list[Any] = [
        None,
        found("total", "one"),
        found("total", "1"),
        found("total", "01"),
        found("total", "2"),
        {"name": "total"},
        found("total", "3"),
        found("total", "4"),
        found("colour", "red"),
        found("invoice_number", "2", raw=None, unit=None, quote=None),
        found("paid", "yes"),
    ]
    kept = (await read(tmp_path, fields=given)).told["fields"]
    assert [(one["name"], one["value"]) for one in kept] == [
        ("total", "1"),
        ("total", "2"),
        ("total", "3"),
        ("invoice_number", "2"),
        ("paid", "true"),
    ]
    assert (kept[3]["raw"], kept[3]["unit"], kept[3]["quote"]) == ("", "", "")
    assert (await read(tmp_path, fields={"total": 1})).told["fields"] == []


@pytest.mark.parametrize("bad", ["", "{", "7", '{"number": 1}', "[" * 100_000, '["x", null, {"text": "x"}]'])
async def test_texts_of_pages_that_cannot_be_read_are_none(tmp_path: Path, bad: str) -> None:
    assert (await read(tmp_path, files=draw(tmp_path, bad))).page_texts == []


async def test_texts_of_pages_are_cut_each_and_all_together(tmp_path: Path) -> None:
    pages = [{"number": number, "text": "x" * 100_001} for number in range(1, 13)]
    kept = (await read(tmp_path, files=draw(tmp_path, pages))).page_texts
    assert [len(page["text"]) for page in kept] == [100_000] * 10
    assert [page["number"] for page in kept] == list(range(1, 11))


async def test_the_last_text_of_a_page_gets_what_room_there_is(tmp_path: Path) -> None:
    pages = [{"number": number, "text": "x" * 99_000} for number in range(1, 13)]
    kept = (await read(tmp_path, files=draw(tmp_path, pages))).page_texts
    assert [len(page["text"]) for page in kept] == [99_000] * 10 + [10_000]


@pytest.mark.parametrize("mime_type", ["text/x;<script>", "text", "TEXT/plain", "x" * 61 + "/y", None, 7])
async def test_a_type_that_is_none_is_not_taken(tmp_path: Path, mime_type: Any) -> None:
    assert (await read(tmp_path, mime_type=mime_type)).mime_type is None


async def test_what_no_database_can_keep_is_replaced(tmp_path: Path) -> None:
    pages = [{"number": 1, "text": "a\0b\ud800c", "label": "\ud800"}]
    kept = await read(tmp_path, content="a\0b\ud800c", summary=12, files=draw(tmp_path, pages))
    assert (kept.text, kept.summary) == ("ab?c", "12")
    assert kept.page_texts == [{"number": 1, "label": "?", "text": "ab?c"}]
