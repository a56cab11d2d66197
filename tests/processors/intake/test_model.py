"""Fields by a text model: held to a schema, checked, placed by us; asked once, and not again by the next attempt."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from mediamill.errors import GiveUpError, RetryLaterError
from mediamill.processors.intake.extractor import extractor_name
from mediamill.processors.models import choose
from mediamill.settings import Settings
from mediamill.testing.model_server import BROKEN, NONSENSE, failing
from mediamill.testing.openai_server import OpenAiServer
from tests.intake_drawing import lines, scan, table, text_pdf
from tests.processors.document_files import Reports
from tests.processors.intake.running import analyse, field

pytestmark = pytest.mark.spec("P3")

NUMBER, DATE, TOTAL = field("invoice_number"), field("invoice_date", "date"), field("total", "amount")
WORDS = [
    *lines(780, ["Muster GmbH", "Unser Zeichen RE-2025-17"]),
    *table(700, (50, 300), [("Ausgestellt", "3. März 2025"), ("Endsumme", "1.309,00 €")]),
]


def told(**values: Any) -> str:
    """An answer of the model: value, or value and quote and confidence."""
    fields = {
        name: value if isinstance(value, dict) else {"value": value, "quote": None, "confidence": 0.9}
        for name, value in values.items()
    }
    return json.dumps({"summary": "An invoice of Muster GmbH.", "fields": fields})


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAiServer]:
    """A text model; nothing of it is left behind in the process."""
    with OpenAiServer() as server:
        monkeypatch.setenv("MEDIAMILL_TEXT", "openai")
        monkeypatch.setenv("MEDIAMILL_TEXT_MODEL", "filer")
        monkeypatch.setenv("MEDIAMILL_OPENAI_URL", f"{server.url}/v1")
        choose.text_model.cache_clear()
        choose.vision_model.cache_clear()
        yield server
        choose.text_model.cache_clear()
        choose.vision_model.cache_clear()


def says(server: OpenAiServer, answer: str) -> None:
    server.say = lambda _: answer


def test_the_model_is_held_to_a_strict_schema_of_the_fields(server: OpenAiServer, tmp_path: Path) -> None:
    says(server, told(invoice_number="RE-2025-17", invoice_date=None, total=None))
    found = analyse(text_pdf(tmp_path / "a.pdf", [WORDS]), tmp_path / "out", [NUMBER, DATE, TOTAL])
    (seen,) = server.seen
    wanted = seen.json()["response_format"]
    assert (wanted["type"], wanted["json_schema"]["strict"]) == ("json_schema", True)
    form = wanted["json_schema"]["schema"]["properties"]["fields"]
    assert form["required"] == ["invoice_number", "invoice_date", "total"]
    assert form["additionalProperties"] is False
    system, user = seen.json()["messages"]
    assert "RE-2025-17" in user["content"]
    assert "RE-2025-17" not in system["content"]
    assert found.result["summary"] == "An invoice of Muster GmbH."
    assert found.result["models"][0].startswith("filer@127.0.0.1")
    assert extractor_name(Settings()) == "openai:filer@1"


def test_values_are_checked_by_type_and_their_places_are_found_by_us(
    server: OpenAiServer, tmp_path: Path
) -> None:
    says(server, told(invoice_number="RE-2025-17", invoice_date="2025-03-03", total="EUR 1309.00"))
    found = analyse(text_pdf(tmp_path / "a.pdf", [WORDS]), tmp_path / "out", [NUMBER, DATE, TOTAL])
    number, date, total = (found.best(name) or {} for name in ("invoice_number", "invoice_date", "total"))
    assert (number["value"], number["quote"]) == ("RE-2025-17", "Unser Zeichen RE-2025-17")
    assert (date["value"], date["raw"]) == ("2025-03-03", "3. März 2025")
    assert (total["value"], total["raw"], total["unit"]) == ("1309.00", "1.309,00 €", "EUR")
    assert all(
        each["page"] == 1 and each["box"] and each["confidence"] > 0.8 for each in (number, date, total)
    )
    assert total["box"][1] > date["box"][1] > number["box"][1]


def test_a_value_that_is_not_in_the_text_has_no_place_and_little_confidence(
    server: OpenAiServer, tmp_path: Path
) -> None:
    invented = {"value": "RE-9999", "quote": "Invoice RE-9999", "confidence": 1.0}
    says(server, told(invoice_number=invented))
    found = (
        analyse(text_pdf(tmp_path / "a.pdf", [WORDS]), tmp_path / "out", [NUMBER]).best("invoice_number")
        or {}
    )
    assert (found["value"], found["page"], found["box"]) == ("RE-9999", None, None)
    assert found["confidence"] <= 0.4


def test_what_is_no_value_of_the_type_or_was_not_asked_for_is_dropped(
    server: OpenAiServer, tmp_path: Path
) -> None:
    says(server, told(invoice_date="next Friday", total="a lot", shoe_size="44", invoice_number=["A"]))
    found = analyse(text_pdf(tmp_path / "a.pdf", [WORDS]), tmp_path / "out", [NUMBER, DATE, TOTAL])
    assert found.result["fields"] == []


def test_a_server_that_knows_no_schemas_is_asked_in_words_and_only_once_found_out(
    server: OpenAiServer, tmp_path: Path
) -> None:
    server.with_schemas = False
    says(server, f"Sure! Here it is:\n```json\n{told(invoice_number='RE-2025-17')}\n```")
    path = text_pdf(tmp_path / "a.pdf", [WORDS])
    assert analyse(path, tmp_path / "one", [NUMBER]).value("invoice_number") == "RE-2025-17"
    assert analyse(path, tmp_path / "two", [NUMBER]).value("invoice_number") == "RE-2025-17"
    assert ["response_format" in seen.json() for seen in server.seen] == [True, False, False]
    assert "JSON schema" in server.seen[1].json()["messages"][0]["content"]


def test_another_attempt_does_not_ask_again(server: OpenAiServer, tmp_path: Path) -> None:
    says(server, told(invoice_number="RE-2025-17"))
    path = text_pdf(tmp_path / "a.pdf", [WORDS])
    first = analyse(path, tmp_path / "one", [NUMBER])
    second = analyse(path, tmp_path / "two", [NUMBER], checkpoint=first.reports.checkpoints[-1])
    assert second.result == first.result
    assert len(server.seen) == 1


def test_scanned_pages_and_answers_are_kept_side_by_side(server: OpenAiServer, tmp_path: Path) -> None:
    says(server, told(invoice_number="AB-1203"))
    path = tmp_path / "scan.pdf"
    scan(["Invoice number: AB-1203", "Thank you very much"], size=(1240, 500)).save(path, "PDF")
    server.then(BROKEN, BROKEN, BROKEN)
    failed, kept = Reports(), dict[str, dict[str, Any]]()
    with pytest.raises(RetryLaterError):
        analyse(path, tmp_path / "one", [NUMBER], reports=failed, kept=kept)
    assert list(kept) == ["scan-1.txt"]
    found = analyse(path, tmp_path / "two", [NUMBER], checkpoint=failed.checkpoints[-1], kept=kept)
    assert "answer" in found.reports.checkpoints[-1]
    assert (found.best("invoice_number") or {})["box"] is not None
    assert found.result["models"] == [found.result["models"][0]]  # the page was not read again


def test_a_model_that_is_away_is_asked_later_and_one_that_talks_nonsense_never(
    server: OpenAiServer, tmp_path: Path
) -> None:
    path = text_pdf(tmp_path / "a.pdf", [WORDS])
    server.then(failing(503), failing(503), failing(503))
    with pytest.raises(RetryLaterError):
        analyse(path, tmp_path / "one", [NUMBER])
    server.then(NONSENSE, NONSENSE)
    with pytest.raises(GiveUpError):
        analyse(path, tmp_path / "two", [NUMBER])


def test_a_long_document_is_asked_about_in_portions_the_promising_pages_first(
    monkeypatch: pytest.MonkeyPatch, server: OpenAiServer, tmp_path: Path
) -> None:
    monkeypatch.setenv("MEDIAMILL_AGENT_CONTEXT_TOKENS", "2000")
    prose = [
        f"Line {number} of a report that goes on and on about nothing in particular" for number in range(40)
    ]
    pages = [lines(790, [f"Page {number} starts", *prose]) for number in range(1, 9)]
    pages[6] = lines(790, ["Invoice number: RE-2025-17", "Total: 5.00 EUR", *prose])

    def say(messages: list[Any]) -> str:
        there = "RE-2025-17" in messages[1]["content"]
        return told(invoice_number="RE-2025-17" if there else None, total="5.00 EUR" if there else None)

    server.say = say
    found = analyse(text_pdf(tmp_path / "a.pdf", pages), tmp_path / "out", [NUMBER, TOTAL])
    asked = [seen.json()["messages"][1]["content"] for seen in server.seen]
    assert len(asked) == 2
    assert "Page 1 starts" in asked[0]
    assert all(len(text) <= 4_000 for text in asked)
    assert (found.best("total") or {})["page"] == 7
    assert found.result["pages"][6]["image"] == "page-00007.webp"


def test_a_document_without_the_field_is_not_asked_about_for_ever(
    monkeypatch: pytest.MonkeyPatch, server: OpenAiServer, tmp_path: Path
) -> None:
    monkeypatch.setenv("MEDIAMILL_AGENT_CONTEXT_TOKENS", "2000")
    says(server, told(total=None))
    pages = [
        lines(790, [f"Line {number} of a long report about nothing at all" for number in range(48)])
    ] * 20
    analyse(text_pdf(tmp_path / "a.pdf", pages), tmp_path / "out", [TOTAL])
    assert len(server.seen) == 4


def test_an_image_is_described_by_the_vision_model_and_asked_about_with_its_words(
    monkeypatch: pytest.MonkeyPatch, server: OpenAiServer, tmp_path: Path
) -> None:
    monkeypatch.setenv("MEDIAMILL_VISION", "openai")

    def say(messages: list[Any]) -> str:
        if isinstance(messages[1]["content"], list):
            return "A grey meter that shows 4711 kWh."
        assert "A grey meter that shows 4711 kWh." in messages[1]["content"]
        return told(meter_reading="4711 kWh")

    server.say = say
    Image.new("RGB", (400, 300), "grey").save(tmp_path / "meter.jpg")
    wanted = field("meter_reading", "number", unit="kWh")
    first = analyse(tmp_path / "meter.jpg", tmp_path / "one", [wanted])
    best = first.best("meter_reading") or {}
    assert (best["value"], best["page"], best["box"]) == ("4711", 1, None)
    assert 0.4 < best["confidence"] <= 0.6
    assert len(server.seen) == 2
    again = analyse(
        tmp_path / "meter.jpg", tmp_path / "two", [wanted], checkpoint=first.reports.checkpoints[-1]
    )
    assert again.result == first.result
    assert len(server.seen) == 2
