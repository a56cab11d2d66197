"""Files of projects over HTTP: bring them in, look at them, again, away; the bytes themselves, and pictures."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator

import pytest

from mediamill.intake.jobs import intake_kinds
from tests.api.projects_served import ask, served
from tests.api.serving import Served, serve
from tests.conftest import wait_until
from tests.intake.conftest import ground
from tests.intake.played import INVOICE, Ground, found

__all__ = ["ground", "served"]


async def add(
    served: Served, content: bytes = INVOICE, name: str = "invoice.txt", status: int = 201
) -> dict[str, object]:
    told: dict[str, object] = await ask(
        served, "POST", "/api/projects/invoices/files", status, params={"name": name}, content=content
    )
    return told


@pytest.mark.spec("P1")
async def test_a_file_is_brought_in_listed_and_shown(served: Served, ground: Ground) -> None:
    await ground.project()
    added = await add(served, name="März/Rechnung.pdf")
    assert (added["state"], added["bytes"], added["twin_of"]) == ("queued", len(INVOICE), None)
    assert added["sha256"] == hashlib.sha256(INVOICE).hexdigest()
    assert await ask(served, "GET", f"/api/files/{added['id']}") == added
    (listed,) = (await ask(served, "GET", "/api/projects/invoices/files"))["files"]
    assert listed.items() <= added.items()
    assert (await ask(served, "GET", "/api/projects/invoices"))["counts"]["queued"] == 1


@pytest.mark.spec("V17")
async def test_the_priority_of_a_file_is_changed_while_it_waits(served: Served, ground: Ground) -> None:
    await ground.project()
    given = {"name": "a.txt", "priority": "low"}
    answer = await served.client.post("/api/projects/invoices/files", params=given, content=INVOICE)
    assert (answer.status_code, answer.json()["priority"]) == (201, "low")
    path = f"/api/files/{answer.json()['id']}/priority"
    answer = await served.client.post(path, json={"priority": "high"})
    assert (answer.status_code, answer.json()["priority"]) == (200, "high")
    await ground.claim()
    refused = await served.client.post(path, json={"priority": "low"})
    assert (refused.status_code, refused.json()["code"]) == (409, "not_waiting")


@pytest.mark.spec("P5")
async def test_a_twin_takes_over_what_the_other_gave(served: Served, ground: Ground) -> None:
    await ground.project()
    await ground.project("Others")
    first = await ground.done()
    twin = await ask(served, "POST", "/api/projects/others/files", 201, params={"name": "b"}, content=INVOICE)
    assert (twin["state"], twin["twin_of"]) == ("completed", first)
    assert [one["value"] for one in twin["proposals"]] == ["4711", "12.50"]


async def test_a_large_body_is_streamed_and_one_that_is_too_large_refused(ground: Ground) -> None:
    await ground.project()
    kinds = intake_kinds(ground.settings)
    async with serve(ground.database, ground.data, kinds, upload_limit_bytes=3_000_000) as served:
        assert (await add(served, bytes(2_900_000)))["bytes"] == 2_900_000
        assert (await add(served, bytes(3_000_001), status=413))["code"] == "upload_too_large"

        async def unannounced() -> AsyncIterator[bytes]:
            for _ in range(40):
                yield bytes(100_000)

        answer = await served.client.post(
            "/api/projects/invoices/files", params={"name": "a"}, content=unannounced()
        )
        assert answer.status_code == 413
    assert await ground.one("select count(*) from project_files") == 1


async def test_a_sender_who_breaks_off_leaves_nothing(served: Served, ground: Ground) -> None:
    await ground.project()
    port = int(served.url.rpartition(":")[2])
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    request = "POST /api/projects/invoices/files?name=a HTTP/1.1"
    head = f"{request}\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 100000\r\n\r\n"
    writer.write(head.encode() + bytes(5_000))
    await writer.drain()
    writer.close()

    async def is_clean() -> bool:
        return not any(path.is_file() for path in (ground.data / "intake").rglob("*"))

    await wait_until(is_clean)
    assert await ground.one("select count(*) from project_files") == 0


async def test_a_file_without_a_name_or_project_is_refused(served: Served, ground: Ground) -> None:
    await ground.project()
    await ask(served, "POST", "/api/projects/invoices/files", 422, content=b"x")
    told = await ask(served, "POST", "/api/projects/nothing/files?name=a", 404, content=bytes(300_000))
    assert told["code"] == "unknown_project"


@pytest.mark.spec("P1")
async def test_files_come_page_by_page_and_by_state(served: Served, ground: Ground) -> None:
    await ground.project()
    for number in range(5):
        await add(served, f"invoice {number}".encode(), f"{number}.txt")
    (job,) = await ground.claim()
    await ground.fail(job, "the file is damaged", permanent=True)
    first = await ask(served, "GET", "/api/projects/invoices/files?amount=3")
    second = await ask(served, "GET", f"/api/projects/invoices/files?amount=3&after={first['next']}")
    names = [file["name"] for file in (*first["files"], *second["files"])]
    assert (names, second["next"]) == (["4.txt", "3.txt", "2.txt", "1.txt", "0.txt"], None)
    (failed,) = (await ask(served, "GET", "/api/projects/invoices/files?state=failed"))["files"]
    assert (failed["name"], failed["error"], failed["attempts"]) == ("0.txt", "the file is damaged", 1)


@pytest.mark.spec("P5")
async def test_a_finished_file_is_analysed_again_only_by_force(served: Served, ground: Ground) -> None:
    await ground.project()
    file_id = await ground.done()
    told = await ask(served, "POST", f"/api/files/{file_id}/reprocess")
    assert (told["done"], told["why"]) == (False, "it is finished and up to date")
    forced = await ask(served, "POST", f"/api/files/{file_id}/reprocess", json={"force": True})
    assert (forced["done"], forced["file"]["state"]) == (True, "queued")


@pytest.mark.spec("P10")
async def test_what_fits_no_field_is_told_made_a_field_or_dropped(served: Served, ground: Ground) -> None:
    await ground.project()
    unmapped = [found("Customer no.", "C-1", type="text"), found("Fax", "12", type="text")]
    file_id = await ground.done(unmapped=unmapped)
    told = (await ask(served, "GET", f"/api/files/{file_id}"))["unmapped"]
    assert [(one["label"], one["type"], one["value"], one["page"]) for one in told] == [
        ("Customer no.", "text", "C-1", 1),
        ("Fax", "text", "12", 1),
    ]
    first, second = (one["id"] for one in told)
    made = await ask(served, "POST", f"/api/findings/{first}/field")
    assert (made["field"], made["state"]) == ("customer_no", "accepted")
    assert await ask(served, "POST", f"/api/findings/{second}/drop") == {"dropped": "Fax"}
    assert (await ask(served, "POST", f"/api/findings/{first}/field", 404))["code"] == "unknown_finding"
    assert (await ask(served, "GET", f"/api/files/{file_id}"))["unmapped"] == []


@pytest.mark.spec("P9")
async def test_the_category_of_a_file_is_told_and_set(served: Served, ground: Ground) -> None:
    fields = [{"name": "total", "type": "amount", "categories": ["Invoice"]}, {"name": "miles"}]
    await ask(served, "POST", "/api/projects", 201, json={"name": "Invoices", "fields": fields})
    rules = [{"pattern": "*receipt*", "category": "Receipt"}]
    project = await ask(served, "PATCH", "/api/projects/invoices", json={"category_rules": rules})
    assert (project["category_rules"], project["fields"][0]["categories"]) == (rules, ["Invoice"])
    by_rule = await add(served, b"one", "receipt.txt")
    assert (by_rule["category"], by_rule["category_by"]) == ("Receipt", "rule")
    told = await ask(served, "PUT", f"/api/files/{by_rule['id']}/category", json={"category": "Invoice"})
    assert (told["category"], told["category_by"], told["state"]) == ("Invoice", "person", "queued")
    told = await ask(served, "PUT", f"/api/files/{by_rule['id']}/category", json={"category": None})
    assert (told["category"], told["category_by"]) == ("Receipt", "rule")
    refused = await ask(served, "PUT", f"/api/files/{by_rule['id']}/category", 422, json={"category": "a,b"})
    assert refused["code"] == "bad_category"
    where = "/api/projects/invoices/files?name=a.txt&category=Letter"
    given = await ask(served, "POST", where, 201, content=b"two")
    assert (given["category"], given["category_by"]) == ("Letter", "person")


@pytest.mark.spec("P8")
async def test_pages_that_were_left_out_are_read_when_that_is_asked_for(
    served: Served, ground: Ground
) -> None:
    await ground.project()
    file_id = await ground.done(facts={"unread": [[501, 640], [7, 7]]})
    (listed,) = (await ask(served, "GET", "/api/projects/invoices/files"))["files"]
    assert listed["unread"] == "Pages 501 to 640 and 7 were not read"
    told = await ask(served, "POST", f"/api/files/{file_id}/read-on")
    assert (told["state"], told["unread"]) == ("queued", None)
    assert (await ask(served, "POST", f"/api/files/{file_id}/read-on", 409))["code"] == "nothing_left"
    assert (await ask(served, "POST", "/api/files/999/read-on", 404))["code"] == "unknown_file"


async def test_a_file_is_deleted_with_what_was_decided(served: Served, ground: Ground) -> None:
    await ground.project()
    file_id = await ground.done()
    assert await ask(served, "DELETE", f"/api/files/{file_id}") == {"deleted": file_id}
    for method, path in (
        ("GET", ""),
        ("DELETE", ""),
        ("POST", "/reprocess"),
        ("GET", "/source"),
        ("GET", "/pages/1"),
        ("GET", "/thumbnail"),
    ):
        assert (await ask(served, method, f"/api/files/{file_id}{path}", 404))["code"] == "unknown_file"
    assert await ground.one("select count(*) from proposals") == 0


async def test_the_bytes_come_back_as_they_came_and_run_nothing(served: Served, ground: Ground) -> None:
    await ground.project()
    page = b"<!doctype html><script>alert(1)</script>"
    added = await add(served, page, 'a "page".html')
    answer = await served.client.get(f"/api/files/{added['id']}/source")
    assert answer.content == page
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"].startswith('attachment; filename="a _page_.html"')
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-security-policy"].startswith("sandbox; default-src 'none'")
    part = await served.client.get(f"/api/files/{added['id']}/source", headers={"Range": "bytes=2-8"})
    assert (part.status_code, part.content) == (206, b"doctype")


@pytest.mark.parametrize(
    ("content", "media"),
    [(b"%PDF-1.4\n%%EOF\n", "application/pdf"), (b"\x89PNG\r\n\x1a\n" + bytes(30), "image/png")],
)
async def test_only_documents_that_browsers_show_safely_are_shown(
    served: Served, ground: Ground, content: bytes, media: str
) -> None:
    await ground.project()
    added = await add(served, content, "a.exe")
    answer = await served.client.get(f"/api/files/{added['id']}/source")
    assert answer.headers["content-type"] == media
    assert answer.headers["content-disposition"].startswith("inline; ")
    assert "script" not in answer.headers["content-security-policy"]
    assert "default-src 'none'" in answer.headers["content-security-policy"]


@pytest.mark.spec("P3")
async def test_pages_are_there_as_pictures(served: Served, ground: Ground) -> None:
    await ground.project()
    file_id = await ground.done()
    shown = await ask(served, "GET", f"/api/files/{file_id}")
    assert [page["number"] for page in shown["pages"]] == [1, 2]
    answer = await served.client.get(f"/api/files/{file_id}/pages/2")
    assert (answer.content, answer.headers["content-type"]) == (b"picture", "image/webp")
    known = await served.client.get(
        f"/api/files/{file_id}/pages/2", headers={"If-None-Match": answer.headers["etag"]}
    )
    assert known.status_code == 304
    small = await served.client.get(f"/api/files/{file_id}/thumbnail")
    assert (small.content, small.headers["content-type"]) == (b"small", "image/jpeg")
    assert (await ask(served, "GET", f"/api/files/{file_id}/pages/3", 404))["code"] == "no_such_page"


@pytest.mark.spec("P4")
async def test_a_change_is_told_as_an_event(served: Served, ground: Ground) -> None:
    await ground.project()
    file_id = await ground.done()
    told = await ground.one(
        "select data::text from events where topic = 'file.changed' and subject = $1 order by id desc limit 1",
        str(file_id),
    )
    assert '"completed"' in told
