"""Files of strangers, bent and broken: a result or a reason, never a crash, never without an end."""

from __future__ import annotations

import random
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mediamill.errors import MediamillError
from mediamill.processors.intake.kept import pack
from mediamill.processors.intake.processor import IntakeProcessor
from tests.intake_drawing import scan
from tests.intake_invoices import invoice_de, invoice_word
from tests.intake_papers import sheet_workbook
from tests.processors.document_files import write_zip
from tests.processors.intake.running import analyse

pytestmark = pytest.mark.spec("P3")

TRIES = 60


def mutations(data: bytes, seed: int) -> Iterator[bytes]:
    """Flipped, cut, doubled and exchanged pieces."""
    chance = random.Random(seed)
    for _ in range(TRIES):
        bent = bytearray(data)
        for _ in range(chance.choice((1, 3, 20))):
            place = chance.randrange(len(bent))
            match chance.randrange(4):
                case 0:
                    bent[place] ^= 1 << chance.randrange(8)
                case 1:
                    del bent[place : place + chance.randrange(1, 40)]
                case 2:
                    bent[place:place] = bent[place : place + chance.randrange(1, 40)]
                case _:
                    bent[place : place + 4] = chance.randbytes(4)
            if not bent:
                break
        yield bytes(bent)


def ends_well(path: Path, folder: Path, processor: IntakeProcessor) -> bool:
    """Was it analysed? If not, there is a reason."""
    failed: MediamillError | None = None
    try:
        analyse(path, folder, processor=processor)
    except MediamillError as error:
        failed = error
    assert failed is None or failed.message.strip()
    return failed is None


def test_a_bent_pdf_is_a_result_or_a_reason(tmp_path: Path) -> None:
    whole, processor = invoice_de(tmp_path).path.read_bytes(), IntakeProcessor((), 60)
    ended = []
    for number, data in enumerate(mutations(whole, 1)):
        (tmp_path / "bent.pdf").write_bytes(data)
        ended.append(ends_well(tmp_path / "bent.pdf", tmp_path / f"out{number}", processor))
    assert any(ended)


@pytest.mark.parametrize("make", [sheet_workbook, invoice_word])
def test_a_bent_office_file_is_a_result_or_a_reason(tmp_path: Path, make: object) -> None:
    assert callable(make)
    path, processor = make(tmp_path).path, IntakeProcessor((), 60)
    for number, data in enumerate(mutations(path.read_bytes(), 2)):
        (tmp_path / "bent").write_bytes(data)
        ends_well(tmp_path / "bent", tmp_path / f"out{number}", processor)


def test_bent_parts_of_a_workbook_are_a_result_or_a_reason(tmp_path: Path) -> None:
    """The package is whole, what is in it is not."""
    path, processor = sheet_workbook(tmp_path).path, IntakeProcessor((), 60)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    for number, data in enumerate(mutations(members["xl/worksheets/sheet1.xml"], 3)):
        bent = write_zip(tmp_path / "bent.xlsx", {**members, "xl/worksheets/sheet1.xml": data})
        ends_well(bent, tmp_path / f"out{number}", processor)


@pytest.mark.parametrize(
    "text",
    [
        "Total: " * 40_000,
        "Total: " + "9" * 100_000,
        "Total: " + "1." * 50_000,
        "Date: " + "1/" * 50_000,
        "Invoice number " * 30_000,
        ("|" * 2_000 + "\n") * 200,
        "IBAN: " + "DE89 3704 " * 20_000,
        "Rated power [" + "k" * 100_000,
        "Subject:" + " a:" * 60_000,
        "a@" * 80_000,
        "+49 " + "1 (" * 80_000,
    ],
)
def test_text_made_to_hold_up_the_rules_does_not(tmp_path: Path, text: str) -> None:
    """The suite's own limit would end it; a second is the usual."""
    (tmp_path / "a.txt").write_text(text)
    ends_well(tmp_path / "a.txt", tmp_path / "out", IntakeProcessor((), 60))
    (tmp_path / "b.txt").write_text(text.replace(":", ":\n"))
    ends_well(tmp_path / "b.txt", tmp_path / "out2", IntakeProcessor((), 60))


def test_a_checkpoint_of_nonsense_is_no_checkpoint(tmp_path: Path) -> None:
    path = invoice_de(tmp_path).path
    known: list[Any] = [
        7,
        "x",
        [],
        {"answer": 3, "begun_pages": [1]},
        {"begun_pages": {"1": "x"}},
    ]
    for checkpoint in known:
        found = analyse(path, tmp_path / "out", checkpoint=checkpoint)
        assert found.value("invoice_number") == "RE-2025-0099"


@pytest.mark.spec("P8")
def test_a_page_that_ended_two_attempts_is_left_out_and_the_others_are_read(tmp_path: Path) -> None:
    path = two_scans(tmp_path)
    for tries, read in ((1, ["1", "2"]), (2, ["2"])):
        found = analyse(path, tmp_path / f"out{tries}", checkpoint={"begun_pages": {"1": tries}})
        assert [f"Number {n}" in found.result["content"] for n in (1, 2)] == ["1" in read, "2" in read]
        assert found.result["facts"].get("unread", []) == ([] if "1" in read else [(1, 1)])
        assert found.reports.checkpoints[-1] == {"begun_pages": {} if "1" in read else {"1": 2}}
    assert "[page 1 was not read]" in found.result["content"]


@pytest.mark.spec("P8")
def test_kept_pages_of_nonsense_are_read_again(tmp_path: Path) -> None:
    path = two_scans(tmp_path)
    nonsense = (7, None, "x", pack(3), pack({"size": "x"}), pack({"size": [1, 2], "pieces": [[]]}))
    for number, page in enumerate(nonsense):
        kept: dict[str, dict[str, Any]] = {"scan-1.txt": {"page": page}, "scan-2.txt": {}}
        found = analyse(path, tmp_path / f"out{number}", kept=kept)
        assert all(f"Number {n}" in found.result["content"] for n in (1, 2))


def two_scans(folder: Path) -> Path:
    one, two = (scan([f"Number {n}"], size=(420, 200), letters=36) for n in (1, 2))
    one.save(folder / "scans.pdf", "PDF", resolution=72, save_all=True, append_images=[two])
    return folder / "scans.pdf"
