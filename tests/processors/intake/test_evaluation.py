"""How good the rules are on 44 files: most values right, hardly a wrong one that claims to be sure."""

from __future__ import annotations

from pathlib import Path

import pytest

from mediamill.processors.contract import RefusedMediaError
from mediamill.processors.intake.processor import IntakeProcessor
from tests.intake_documents import CATALOG, Document, make_documents
from tests.processors.intake.other_documents import make_other_documents
from tests.processors.intake.running import Analysed, analyse

pytestmark = pytest.mark.spec("P3")

LEAST_RIGHT = 0.93
MOST_SURE_AND_WRONG = 2
SURE = 0.8


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> list[Document]:
    others = make_other_documents(tmp_path_factory.mktemp("others"))
    return [*make_documents(tmp_path_factory.mktemp("documents")), *others]


@pytest.fixture(scope="module")
def analysed(documents: list[Document], tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Analysed]:
    folder, processor = tmp_path_factory.mktemp("analysed"), IntakeProcessor(("file.analyse",), 300)
    return {
        each.path: analyse(each.path, folder / str(number), processor=processor)
        for number, each in enumerate(documents)
        if each.ending != "failed"
    }


def test_there_are_thirty_mixed_files(documents: list[Document]) -> None:
    thirty = documents[:30]
    assert len({each.kind for each in thirty}) >= 12
    assert [each.kind for each in thirty[-4:]] == ["twin", "empty", "broken", "unsupported"]
    twin = thirty[-4]
    assert twin.path.read_bytes() == documents[0].path.read_bytes()


def test_most_values_are_found_and_right(documents: list[Document], analysed: dict[Path, Analysed]) -> None:
    wrong, right = [], 0
    for each in documents:
        for name, value in each.expected.items():
            told = analysed[each.path].value(name)
            right += told == value
            if told != value:
                wrong.append(f"{each.path.name}: {name} is {value}, not {told}")
    assert right / (right + len(wrong)) >= LEAST_RIGHT, "\n".join(wrong)


def test_hardly_a_wrong_value_claims_to_be_sure(
    documents: list[Document], analysed: dict[Path, Analysed]
) -> None:
    """Fields that are not in a document count too: each has the whole catalog to be wrong about."""
    bold = [
        f"{each.path.name}: {found['name']} is not {found['value']} ({found['confidence']})"
        for each in documents
        if each.path in analysed
        for found in analysed[each.path].result["fields"]
        if found["confidence"] > SURE and found["value"] != each.expected.get(found["name"])
    ]
    assert len(bold) <= MOST_SURE_AND_WRONG, "\n".join(bold)
    assert len(CATALOG) * len(analysed) > 500


def test_confidence_means_something(documents: list[Document], analysed: dict[Path, Analysed]) -> None:
    """Of values told as sure, nearly all are right; of the others far fewer."""
    sure: list[bool] = []
    unsure: list[bool] = []
    for each in documents:
        for found in analysed[each.path].result["fields"] if each.path in analysed else []:
            right = found["value"] == each.expected.get(found["name"])
            (sure if found["confidence"] > SURE else unsure).append(right)
    assert sum(sure) / len(sure) > 0.95
    assert sum(unsure) / len(unsure) < 0.6


def test_values_of_pages_with_pictures_have_a_place_and_a_quote(
    documents: list[Document], analysed: dict[Path, Analysed]
) -> None:
    for each in analysed.values():
        drawn = {page["number"] for page in each.result["pages"] if page["image"]}
        for found in each.result["fields"]:
            if found["page"] in drawn:
                left, top, right, bottom = found["box"]
                assert 0 <= left < right <= 1
                assert 0 <= top < bottom <= 1
                assert found["raw"][:20] in found["quote"] or len(found["quote"]) == 200


def test_empty_broken_and_unsupported_files_end_as_they_should(
    documents: list[Document], analysed: dict[Path, Analysed], tmp_path: Path
) -> None:
    for each in documents:
        if each.ending == "failed":
            with pytest.raises(RefusedMediaError) as refused:
                analyse(each.path, tmp_path / each.kind)
            assert refused.value.message
        elif each.ending == "unsupported":
            result = analysed[each.path].result
            assert (result["kind"], result["fields"], result["pages"]) == ("unsupported", [], [])
            assert "application/x-elf" in result["unsupported"]
        else:
            assert analysed[each.path].result["kind"] in ("document", "image")
