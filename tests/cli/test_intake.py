"""`mediamill intake`: projects, fields, files in, proposals decided, the export; by the command as it is typed."""

from __future__ import annotations

import asyncio
import csv
import io
import itertools
import json
from pathlib import Path

import pytest

from mediamill.cli.intake_screen import read_field
from mediamill.db.connection import Database
from mediamill.errors import InvalidError
from tests.cli.conftest import Mediamill, finish_process, start_process
from tests.conftest import wait_until
from tests.intake.played import INVOICE, Ground, found


@pytest.fixture
def ground(database: Database, tmp_path: Path) -> Ground:
    """The worker's side of the same database and data folder."""
    return Ground.on(database, tmp_path / "data")


@pytest.mark.spec("P1")
async def test_a_project_is_made_listed_shown_and_edited(mediamill: Mediamill, tmp_path: Path) -> None:
    assert "mediamill intake create NAME" in (await mediamill("intake", "list")).out
    words = ("--field", "number=Invoice number", "--field", "total:amount:EUR", "--watch", tmp_path)
    made = await mediamill("intake", "create", "Our invoices", *words)
    assert (made.code, "project our-invoices is made, with 2 fields" in made.out) == (0, True), made.err
    assert "mediamill intake add our-invoices FILE" in made.out
    listed = (await mediamill("intake", "list")).out
    assert all(word in listed for word in ("our-invoices", "Our invoices", str(tmp_path)))
    shown = (await mediamill("intake", "show", "our-invoices")).out
    assert all(word in shown for word in ("Invoice number", "amount", "EUR", "none", "0 proposals"))
    edited = await mediamill("intake", "edit", "our-invoices", "--name", "Bills", "--no-watch", "--json")
    assert (edited.json["name"], edited.json["watch_path"]) == ("Bills", None)
    for wrong in ((), ("--watch", tmp_path, "--no-watch")):
        assert (await mediamill("intake", "edit", "our-invoices", *wrong)).code == 1


@pytest.mark.spec("P1")
async def test_the_catalog_is_changed_field_by_field_or_from_a_file(
    mediamill: Mediamill, tmp_path: Path
) -> None:
    await mediamill("intake", "create", "Invoices", "--field", "fax", "--field", "total:amount")
    changed = await mediamill(
        "intake", "fields", "invoices", "--field", "due:date=Payable until", "--remove", "fax", "--json"
    )
    assert [(one["name"], one["type"], one["label"]) for one in changed.json] == [
        ("total", "amount", "Total"),
        ("due", "date", "Payable until"),
    ]
    catalog = tmp_path / "catalog.json"
    catalog.write_text(changed.out)
    other = await mediamill("intake", "create", "Others", "--fields", catalog, "--json")
    assert other.json["fields"] == changed.json
    assert "Payable until" in (await mediamill("intake", "fields", "others")).out
    unknown = await mediamill("intake", "fields", "invoices", "--remove", "fax")
    assert (unknown.code, "there is no field fax" in unknown.err) == (1, True)
    for content in ("{", "[1]", '[{"name": "a", "colour": 1}]', '[{"name": "A"}]'):
        catalog.write_text(content)
        refused = await mediamill("intake", "fields", "others", "--fields", catalog)
        assert (refused.code, refused.err.startswith("error: ")) == (1, True), content


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("number", ("number", "text", "", "")),
        ("total:amount", ("total", "amount", "", "")),
        ("reading:number:kWh", ("reading", "number", "kWh", "")),
        ("due:date=Payable until: when", ("due", "date", "", "Payable until: when")),
        ("speed:number:km/h=Top speed", ("speed", "number", "km/h", "Top speed")),
    ],
)
def test_a_field_is_read_as_it_is_typed(text: str, expected: tuple[str, str, str, str]) -> None:
    field = read_field(text)
    assert (field["name"], field["type"], field["unit"], field["label"]) == expected


def test_a_type_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(InvalidError) as caught:
        read_field("total:money")
    assert caught.value.fix == "one of text, number, amount, date, boolean"


@pytest.mark.spec("P1", "P5", "V17")
async def test_files_and_folders_are_added_and_twins_are_told(
    mediamill: Mediamill, ground: Ground, tmp_path: Path
) -> None:
    await ground.project()
    folder = tmp_path / "papers"
    (folder / "2024").mkdir(parents=True)
    (folder / "2024" / "a.txt").write_bytes(INVOICE)
    (folder / "b.txt").write_bytes(INVOICE)
    (folder / ".hidden").write_bytes(b"no")
    added = await mediamill("intake", "add", "invoices", folder, "--priority", "low")
    assert added.code == 0, added.err
    assert "2 files added to invoices, 1 of them known already" in added.out
    told = (await mediamill("intake", "files", "invoices", "--json")).json
    assert sorted(file["name"] for file in told["files"]) == ["2024/a.txt", "b.txt"]
    assert "a.txt" in (await mediamill("intake", "files", "invoices", "--state", "queued")).out
    file_id = told["files"][0]["id"]
    assert (await mediamill("intake", "file", file_id, "--json")).json["priority"] == "low"
    assert "1 file at high priority" in (await mediamill("intake", "priority", "high", file_id)).out
    assert (await mediamill("intake", "file", file_id, "--json")).json["priority"] == "high"


async def test_a_file_that_cannot_be_added_does_not_keep_the_others_from_it(
    mediamill: Mediamill, ground: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ground.project()
    monkeypatch.setenv("MEDIAMILL_UPLOAD_LIMIT_BYTES", "100")
    (tmp_path / "large.txt").write_bytes(bytes(101))
    (tmp_path / "small.txt").write_bytes(INVOICE)
    added = await mediamill("intake", "add", "invoices", tmp_path / "large.txt", tmp_path / "small.txt")
    assert (added.code, "large.txt refused" in added.err) == (1, True), added.err
    assert "1 file added to invoices" in added.out
    unknown = await mediamill("intake", "add", "nothing", tmp_path / "small.txt")
    assert (unknown.code, "there is no project" in unknown.err) == (1, True)
    missing = await mediamill("intake", "add", "invoices", tmp_path / "none.txt")
    assert (missing.code, "there is no file" in missing.err) == (1, True)


@pytest.mark.spec("P1")
async def test_a_file_that_vanishes_while_others_are_added_does_not_keep_the_rest_from_it(
    mediamill: Mediamill, ground: Ground, tmp_path: Path
) -> None:
    await ground.project()
    papers = [tmp_path / name for name in ("1.txt", "2.txt", "3.txt")]
    for path in papers:
        path.write_text(path.name)
    waits = "select count(*) > 0 from pg_locks where not granted and relation = 'project_files'::regclass"
    async with ground.database.transaction() as connection:
        await connection.execute("lock table project_files in exclusive mode")
        adding = asyncio.ensure_future(mediamill("intake", "add", "invoices", *papers))
        await wait_until(lambda: ground.one(waits))  # with the first
        papers[1].unlink()
    added = await adding
    assert (added.code, "2.txt refused: No such file" in added.err) == (1, True), added.err
    assert "2 files added to invoices" in added.out


@pytest.mark.spec("P1", "P3")
async def test_with_wait_the_command_stays_until_files_are_analysed_and_tells_what_failed(
    mediamill: Mediamill, ground: Ground, tmp_path: Path
) -> None:
    await ground.project()
    (tmp_path / "invoice.txt").write_bytes(b"Invoice number: 4711\nTotal: 12.50 EUR\nDue date: 2024-05-01\n")
    (tmp_path / "empty.pdf").write_bytes(b"")
    ended = await mediamill(
        "intake", "add", "invoices", tmp_path / "invoice.txt", tmp_path / "empty.pdf", "--wait"
    )
    assert (ended.code, "empty.pdf failed: " in ended.err) == (1, True), ended.err
    assert "1 file analysed" in ended.out
    told = (await mediamill("intake", "proposals", "invoices", "--json")).json
    assert {one["value"] for one in told["proposals"]} >= {"4711", "12.50", "2024-05-01"}


@pytest.mark.spec("P6")
async def test_proposals_are_listed_accepted_edited_rejected_and_reopened(
    mediamill: Mediamill, ground: Ground
) -> None:
    await ground.project()
    file_id = await ground.done()
    number, total = (one["id"] for one in (await ground.show(file_id))["proposals"])
    listed = (await mediamill("intake", "proposals", "invoices")).out
    assert all(word in listed for word in ("4711", "12.50", "90 %", "invoice.txt", "pending"))
    assert "1 proposal accepted" in (await mediamill("intake", "accept", number)).out
    wrong = await mediamill("intake", "accept", total, "--value", "a lot")
    assert (wrong.code, "is no number" in wrong.err) == (1, True)
    edited = await mediamill("intake", "accept", total, "--value", "1.300,00", "--json")
    assert edited.json["proposals"][0]["edited_value"] == "1300.00"
    shown = (await mediamill("intake", "file", file_id)).out
    assert all(word in shown for word in ("edited", "1300.00", "An invoice over 12.50 EUR", "rules@1"))
    assert "nothing waits for a person" in (await mediamill("intake", "proposals", "invoices")).out
    assert "1 proposal rejected" in (await mediamill("intake", "reject", number)).out
    assert "1 proposal waiting again" in (await mediamill("intake", "reopen", number)).out
    gone = await mediamill("intake", "reject", 999)
    assert (gone.code, "there is no proposal 999" in gone.err) == (1, True)
    for words in ((), (number, "--project", "invoices"), ("--project", "invoices"), (1, 2, "--value", "x")):
        assert (await mediamill("intake", "accept", *words)).code == 1, words


@pytest.mark.spec("P6")
async def test_what_was_not_found_is_entered(mediamill: Mediamill, ground: Ground) -> None:
    await ground.project()
    file_id = await ground.done()
    entered = await mediamill("intake", "set", file_id, "weight", "1.234,5")
    assert (entered.code, f"file {file_id}: weight is 1234.5 kg" in entered.out) == (0, True), entered.err
    negative = await mediamill("intake", "set", "--json", file_id, "total", "--", "-3")
    assert (negative.json["value"], negative.json["origin"]) == ("-3", "person")
    shown = (await mediamill("intake", "file", file_id)).out
    assert all(word in shown for word in ("entered", "1234.5"))
    for words, why in (
        ((file_id, "weight", "a lot"), "is no number"),
        ((file_id, "colour", "red"), "no field"),
        ((999, "weight", "7"), "there is no file 999"),
    ):
        refused = await mediamill("intake", "set", *words)
        assert (refused.code, why in refused.err) == (1, True), refused.err
    (row,) = csv.DictReader(io.StringIO((await mediamill("intake", "export", "invoices")).out))
    assert (row["weight"], row["total"]) == ("1234.5", "-3")


@pytest.mark.spec("P1")
async def test_another_extractor_makes_files_outdated(
    mediamill: Mediamill, ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ground.project()
    file_id = await ground.done()
    assert "outdated" not in (await mediamill("intake", "file", file_id)).out
    monkeypatch.setenv("MEDIAMILL_TEXT", "openai")
    monkeypatch.setenv("MEDIAMILL_OPENAI_URL", "http://127.0.0.1:9/v1")
    assert "another extractor" in (await mediamill("intake", "file", file_id)).out
    listed = (await mediamill("intake", "files", "invoices", "--json")).json
    assert [file["outdated"] for file in listed["files"]] == [True]


@pytest.mark.spec("P6")
async def test_what_is_sure_is_accepted_and_exported(
    mediamill: Mediamill, ground: Ground, tmp_path: Path
) -> None:
    await ground.project()
    await ground.done(
        fields=[found("total", "12.50", unit="EUR"), found("due", "2024-05-01", confidence=0.3)]
    )
    sure = await mediamill("intake", "accept", "--project", "invoices", "--above", "0.8")
    assert "1 proposal accepted" in sure.out
    (row,) = csv.DictReader(io.StringIO((await mediamill("intake", "export", "invoices")).out))
    assert (row["total"], row["due"]) == ("12.50", "")
    file = tmp_path / "all.json"
    written = await mediamill("intake", "export", "invoices", "--all", "--json", "--to", file)
    assert written.code == 0, written.err
    assert json.loads(file.read_text())[0]["fields"]["due"]["value"] == "2024-05-01"
    unknown = await mediamill("intake", "export", "nothing")
    assert (unknown.code, unknown.out) == (1, "")


@pytest.mark.spec("P5")
async def test_files_are_analysed_again_by_force_or_where_it_is_needed(
    mediamill: Mediamill, ground: Ground
) -> None:
    await ground.project()
    file_id = await ground.done()
    assert "finished and up to date" in (await mediamill("intake", "reprocess", file_id)).out
    nothing = await mediamill("intake", "reprocess", "--project", "invoices")
    assert "everything is up to date" in nothing.out
    forced = await mediamill("intake", "reprocess", file_id, "--force", "--json")
    assert forced.json["files"][0]["done"] is True
    assert (await ground.state(file_id))[0] == "queued"
    for words in ((), (file_id, "--project", "invoices")):
        assert (await mediamill("intake", "reprocess", *words)).code == 1


@pytest.mark.spec("P10")
async def test_what_fits_no_field_is_shown_made_a_field_or_dropped(
    mediamill: Mediamill, ground: Ground
) -> None:
    await ground.project()
    unmapped = [found("Customer no.", "C-1", type="text"), found("Fax", "12", type="text")]
    file_id = await ground.done(unmapped=unmapped)
    assert "also found" in (await mediamill("intake", "file", file_id)).out
    ids = [one["id"] for one in (await mediamill("intake", "file", file_id, "--json")).json["unmapped"]]
    assert "customer_no: C-1 is accepted" in (await mediamill("intake", "map", ids[0])).out
    assert (await mediamill("intake", "drop", ids[1], "--json")).json == {"dropped": "Fax"}
    assert (await mediamill("intake", "map", ids[0])).code == 1
    assert "also found" not in (await mediamill("intake", "file", file_id)).out


@pytest.mark.spec("P9")
async def test_files_have_categories_by_rule_and_by_word(mediamill: Mediamill, tmp_path: Path) -> None:
    await mediamill("intake", "create", "Invoices", "--field", "total:amount=Total due@Invoice,Receipt")
    listed = await mediamill("intake", "fields", "invoices", "--json")
    assert listed.json[0]["categories"] == ["Invoice", "Receipt"]
    told = await mediamill("intake", "edit", "invoices", "--rule", "*receipt*=Receipt")
    assert "*receipt* is Receipt" in told.out
    for name in ("receipt.txt", "b.txt"):
        (tmp_path / name).write_text(name)
    first = (await mediamill("intake", "add", "invoices", tmp_path / "receipt.txt", "--json")).json[0]["id"]
    words = ("--category", "Letter", "--json")
    second = (await mediamill("intake", "add", "invoices", tmp_path / "b.txt", *words)).json[0]["id"]
    shown = [(await mediamill("intake", "file", each, "--json")).json for each in (first, second)]
    assert [each["category"] for each in shown] == ["Receipt", "Letter"]
    assert "Invoice (by person)" in (await mediamill("intake", "category", "Invoice", first, second)).out
    assert "Receipt (by rule)" in (await mediamill("intake", "category", "-", first)).out
    assert (await mediamill("intake", "edit", "invoices", "--rule", "nothing")).code == 1
    none = await mediamill("intake", "edit", "invoices", "--no-rules", "--json")
    assert none.json["category_rules"] == []


@pytest.mark.spec("P8")
async def test_pages_that_were_left_out_are_named_and_read_on_demand(
    mediamill: Mediamill, ground: Ground
) -> None:
    await ground.project()
    file_id = await ground.done(facts={"unread": [[51, 400]]})
    assert "Pages 51 to 400 were not read" in (await mediamill("intake", "files", "invoices")).out
    assert "Pages 51 to 400 were not read: mediamill intake read-on" in (
        await mediamill("intake", "file", file_id)
    ).out.replace("\n", " ")
    assert (await mediamill("intake", "read-on", file_id, "--json")).json["files"] == [file_id]
    assert (await ground.state(file_id))[0] == "queued"
    again = await mediamill("intake", "read-on", file_id)
    assert (again.code, "nothing left to read" in again.err) == (1, True)


async def test_files_and_projects_are_deleted_when_that_is_confirmed(
    mediamill: Mediamill, ground: Ground
) -> None:
    await ground.project()
    file_id = await ground.done()
    refused = await mediamill("intake", "remove", file_id)
    assert (refused.code, "add --yes" in refused.err) == (1, True)
    assert "1 file removed" in (await mediamill("intake", "remove", file_id, "--yes")).out
    assert (await mediamill("intake", "file", file_id)).code == 1
    assert "is deleted" in (await mediamill("intake", "delete", "invoices", "--yes")).out
    assert (await mediamill("intake", "list", "--json")).json == []


async def test_a_text_from_a_stranger_does_not_steer_the_terminal(
    mediamill: Mediamill, ground: Ground
) -> None:
    await ground.project()
    file_id = await ground.done(
        content=b"x", summary="\x1b[2J gone", fields=[found("total", "1", raw="\x1b[31m1")]
    )
    for words in (("files", "invoices"), ("file", file_id), ("proposals", "invoices")):
        assert "\x1b" not in (await mediamill("intake", *words)).out
    assert "\x1b" not in (await mediamill("intake", "file", file_id, "--text")).out


async def test_an_unknown_file_says_where_to_look(mediamill: Mediamill) -> None:
    unknown = await mediamill("intake", "file", 7)
    assert (unknown.code, "mediamill intake files PROJECT" in unknown.err) == (1, True)


async def test_whoever_watches_a_project_sees_its_changes(
    environment: dict[str, str], ground: Ground, new_url: str
) -> None:
    await ground.project()
    await ground.project("Others")
    process = start_process("intake", "watch", "invoices", "--json", MEDIAMILL_DATABASE_URL=new_url)
    assert process.stdout is not None
    told = asyncio.create_task(asyncio.to_thread(process.stdout.readline))
    numbers = itertools.count()

    async def is_told() -> bool:
        content = f"invoice {next(numbers)}".encode()
        await ground.add("others", content)
        await ground.add("invoices", content)
        return told.done()

    try:
        await wait_until(is_told)
        line = json.loads(await told)
    finally:
        process.terminate()
        finish_process(process)
    assert (line["topic"], line["data"]["project"]) == ("file.changed", "invoices")
