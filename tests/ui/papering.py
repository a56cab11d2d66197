"""Project files for the page tests: an invoice on two drawn pages with places that are really there, a spreadsheet
without a picture, and files in every other state."""

from __future__ import annotations

import io
import json
from functools import cache
from typing import Any

from PIL import Image, ImageDraw, ImageFont
from playwright.async_api import Page, expect

from mediamill.engine.model import ClaimedJob
from mediamill.intake.model import Field
from mediamill.staging.derivatives import home_of
from tests.api.serving import Served
from tests.intake.played import Ground, found, result_of

WIDTH, HEIGHT = 990, 1400
FIELDS = (
    Field("invoice_number", "text", "Invoice number"),
    Field("date", "date", "Invoice date"),
    Field("total", "amount", "Total due", "What is to be paid in the end, with taxes", "EUR"),
    Field("due", "date", "Payable until"),
    Field("customer", "text", "Customer"),
    Field("order_number", "text", "Your order"),
    Field("paid", "boolean", "Already paid"),
)
ITEMS = (
    ("Repair of the mill wheel", "12", "1,044.00"),
    ("Oak boards, planed", "6", "312.00"),
    ("Journey", "1", "48.50"),
)
Box = list[float]
Places = dict[str, Box]


@cache
def invoice() -> tuple[tuple[bytes, bytes], Places]:
    """Two pages as WebP, and where on them what stands."""
    places: Places = {}
    first, pen = _sheet()
    _write(pen, places, "brand", "Miller & Daughters", 90, 90, 44)
    _write(pen, places, "street", "12 Water Lane · Oldbridge", 90, 150, 22)
    _write(pen, places, "customer", "Harbour Bakery Ltd", 90, 270, 26)
    _write(pen, places, "town", "7 Quay Street, Newport", 90, 306, 26)
    _write(pen, places, "title", "Invoice", 90, 430, 40)
    for number, (name, label, value) in enumerate(
        (
            ("invoice_number", "Invoice number", "2024-0815"),
            ("date", "Date", "3 May 2024"),
            ("order_number", "Your order", "HB-77"),
        )
    ):
        _write(pen, places, f"{name}-label", label, 560, 430 + 40 * number, 24)
        _write(pen, places, name, value, 760, 430 + 40 * number, 24)
    for number, (what, amount, price) in enumerate(ITEMS):
        y = 640 + 52 * number
        _write(pen, places, f"item{number}", what, 90, y, 24)
        _write(pen, places, f"amount{number}", amount, 600, y, 24)
        _write(pen, places, f"price{number}", price, 760, y, 24)
        pen.line((90, y + 40, 900, y + 40), fill="#cccccc", width=1)
    _write(pen, places, "total-label", "Total due", 560, 850, 28)
    _write(pen, places, "total", "1,404.50 EUR", 730, 850, 28)
    _write(pen, places, "thanks", "Thank you for your trust.", 90, 1250, 24)
    second, pen = _sheet()
    _write(pen, places, "terms", "Terms", 90, 90, 40)
    _write(pen, places, "due-label", "Payable until", 90, 190, 26)
    _write(pen, places, "due", "2 June 2024", 300, 190, 26)
    _write(pen, places, "bank", "Oldbridge Savings Bank, account 12 34 56 78", 90, 260, 24)
    return (_webp(first), _webp(second)), places


def invoice_result() -> dict[str, Any]:
    """What a processor would say of it: one thing sure, one with two values, one not found."""
    places = invoice()[1]

    def one(
        name: str, value: str, raw: str, confidence: float, place: str, page: int = 1, **more: Any
    ) -> dict[str, Any]:
        return found(
            name, value, raw=raw, confidence=confidence, box=places[place], page=page, quote=raw, **more
        )

    fields = [
        one("invoice_number", "2024-0815", "2024-0815", 0.97, "invoice_number"),
        one("date", "2024-05-03", "3 May 2024", 0.93, "date"),
        one("total", "1404.50", "1,404.50 EUR", 0.91, "total", unit="EUR"),
        one("total", "1044.00", "1,044.00", 0.42, "price0", unit="EUR"),
        one("due", "2024-06-02", "2 June 2024", 0.78, "due", 2),
        one("customer", "Harbour Bakery Ltd", "Harbour Bakery Ltd", 0.55, "customer"),
        one("order_number", "HB-77", "HB-77", 0.88, "order_number"),
    ]
    text = "Miller & Daughters\nInvoice\nInvoice number 2024-0815\nDate 3 May 2024\nTotal due 1,404.50 EUR"
    summary = (
        "An invoice of Miller & Daughters to Harbour Bakery Ltd over 1,404.50 EUR, payable until 2 June 2024."
    )
    return result_of(fields=fields, content=text, summary=summary, mime_type="application/pdf")


def draw_pages(ground: Ground, job: ClaimedJob) -> dict[str, Any]:
    """The pictures where a worker keeps them."""
    pictures = invoice()[0]
    texts = [
        {"number": 1, "label": "Page 1", "text": "Invoice number 2024-0815"},
        {"number": 2, "label": "Page 2", "text": "Terms. Payable until 2 June 2024"},
    ]
    contents = {f"page-{number:05}.webp": picture for number, picture in enumerate(pictures, 1)}
    contents |= {"pages.json": json.dumps(texts).encode(), "thumbnail.jpg": _thumbnail(pictures[0])}
    pages = [
        {"number": n, "width": WIDTH, "height": HEIGHT, "image": f"page-{n:05}.webp", "label": f"Page {n}"}
        for n in (1, 2)
    ]
    return {"pages": pages, "files": _keep(ground, job, contents)}


async def add_invoice(ground: Ground, slug: str = "invoices", name: str = "Invoice 2024-0815.pdf") -> int:
    """One that was analysed; its content is its name's own."""
    file = await ground.add(slug, f"%PDF-1.4 {slug} {name}".encode(), name)
    (job,) = await ground.claim()
    settled = await ground.finish(job, {**invoice_result(), **draw_pages(ground, job)})
    assert settled.done == {job.id}, settled
    return int(file["id"])


async def add_sheet(ground: Ground, slug: str = "invoices") -> int:
    """A spreadsheet: it has a text, and no picture."""
    file = await ground.add(slug, b"PK as if", "Deliveries <2024> & more.xlsx")
    (job,) = await ground.claim()
    text = "Delivery note\nCustomer\tMill Café <b>& Co</b>\nInvoice number\t2024-0900\nDate\t2024-05-09"
    fields = [
        found("customer", "Mill Café <b>& Co</b>", raw="Mill Café <b>& Co</b>", box=None, confidence=0.7),
        found("invoice_number", "2024-0900", box=None, quote="Invoice number 2024-0900", confidence=0.99),
    ]
    told = result_of(
        fields=fields,
        content=text,
        mime_type="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    )
    pages = [{"number": 1, "width": None, "height": None, "image": None, "label": "Sheet “Deliveries”"}]
    kept = {"pages.json": json.dumps([{"number": 1, "label": "Deliveries", "text": text}]).encode()}
    settled = await ground.finish(job, {**told, "pages": pages, "files": _keep(ground, job, kept)})
    assert settled.done == {job.id}, settled
    return int(file["id"])


async def fill_project(ground: Ground, slug: str = "invoices") -> dict[str, int]:
    """A file in each state, and a twin."""
    ids = {"sheet": await add_sheet(ground, slug)}
    broken = await ground.add(slug, b"%PDF broken", "scan_0042.pdf")
    (job,) = await ground.claim()
    await ground.fail(job, "the document is damaged: it ends within its first page", permanent=True)
    film = await ground.add(slug, b"as if", "holiday.mov")
    (job,) = await ground.claim()
    reason = "videos are not analysed (video/quicktime)"
    await ground.finish(
        job,
        result_of(
            fields=[],
            content="",
            summary="",
            kind="unsupported",
            unsupported=reason,
            mime_type="video/quicktime",
        ),
    )
    ids |= {"broken": int(broken["id"]), "film": int(film["id"]), "invoice": await add_invoice(ground, slug)}
    twin = await ground.add(slug, f"%PDF-1.4 {slug} Invoice 2024-0815.pdf".encode(), "the same once more.pdf")
    working = await ground.add(
        slug, b"working", "Letter of the council, 14 pages, with a name that is really much too long.pdf"
    )
    assert await ground.claim()
    waiting = await ground.add(slug, b"waiting", "meter in the cellar.jpg")
    return {**ids, "twin": int(twin["id"]), "working": int(working["id"]), "waiting": int(waiting["id"])}


def _keep(ground: Ground, job: ClaimedJob, contents: dict[str, bytes]) -> dict[str, Any]:
    home = home_of(job)
    folder = ground.data / home
    folder.mkdir(parents=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return {name: {"path": f"{home}/{name}", "bytes": len(one)} for name, one in contents.items()}


def _sheet() -> tuple[Image.Image, ImageDraw.ImageDraw]:
    picture = Image.new("RGB", (WIDTH, HEIGHT), "white")
    return picture, ImageDraw.Draw(picture)


def _write(pen: ImageDraw.ImageDraw, places: Places, name: str, text: str, x: int, y: int, size: int) -> None:
    font = ImageFont.load_default(size)
    pen.text((x, y), text, fill="#222222", font=font)
    left, top, right, bottom = pen.textbbox((x, y), text, font=font)
    places[name] = [left / WIDTH, top / HEIGHT, right / WIDTH, bottom / HEIGHT]


def _webp(picture: Image.Image) -> bytes:
    out = io.BytesIO()
    picture.save(out, "WEBP", quality=90)
    return out.getvalue()


def _thumbnail(page: bytes) -> bytes:
    out = io.BytesIO()
    picture = Image.open(io.BytesIO(page))
    picture.thumbnail((320, 320))
    picture.save(out, "JPEG")
    return out.getvalue()


CHOSEN = ".proposal[aria-current]"


async def open_file(page: Page, served: Served, file_id: int, query: str = "") -> None:
    await page.goto(f"{served.url}/projects/invoices/files/{file_id}{query}")
    await expect(page.locator("#proposals")).to_be_visible()


async def marked(page: Page) -> list[float]:
    """Where the marked place is, in shares of the picture that is shown."""
    shares: list[float] = await page.evaluate(
        """() => { const all = document.querySelector('.picture img').getBoundingClientRect();
        const one = document.querySelector('.place.chosen').getBoundingClientRect();
        return [(one.left - all.left) / all.width, (one.top - all.top) / all.height,
            (one.right - all.left) / all.width, (one.bottom - all.top) / all.height]; }"""
    )
    return shares
