"""Jobs are named by what they are about, with the way to it: a file, a video, an asset, a chat."""

from __future__ import annotations

from uuid import uuid4

import pytest
from playwright.async_api import Browser, expect

from mediamill.engine.enqueue import Enqueuer
from mediamill.engine.model import NewJob
from mediamill.ui.subjects import Subject, subjects_of
from tests.api.serving import Served
from tests.intake.played import Ground
from tests.ui.browser import follow, shoot
from tests.ui.papering import FIELDS

NAME = "Invoice <b>2024</b>.pdf"


@pytest.fixture
def ground(served: Served) -> Ground:
    """The worker's side."""
    return Ground.on(served.database, served.app.state.deps.settings.data_folder)


@pytest.mark.spec("E13", "P11")
async def test_a_failed_job_is_named_by_its_file_and_leads_there(
    served: Served, ground: Ground, browser: Browser
) -> None:
    await ground.project(fields=FIELDS)
    file = await ground.add(content=b"broken", name=NAME)
    (job,) = await ground.claim()
    await ground.fail(job, "it is damaged", permanent=True)
    page = await browser.new_page()
    for path, place in (
        ("/", "#dead"),
        ("/dead", f"#dead-{job.id}"),
        ("/jobs", f"#job-{job.id}"),
        (f"/jobs/{job.id}", "#job"),
    ):
        await page.goto(f"{served.url}{path}")
        await expect(page.locator(place).get_by_role("link", name=NAME)).to_be_visible()
        await shoot(page, f"subject{path.replace('/', '-')}" if path == "/dead" else f"subject-{place[1:4]}")
    await follow(page.locator("#job").get_by_role("link", name=NAME))
    assert page.url.endswith(f"/projects/invoices/files/{file['id']}")


@pytest.mark.spec("E13", "P11")
async def test_every_kind_of_subject_has_a_name_and_a_page(served: Served, ground: Ground) -> None:
    video = uuid4()
    await ground.run(
        "insert into videos (id, slug, title, source_name, source_bytes, mime_type) "
        "values ($1, 'a', 'Our film', 'a', 1, 'v')",
        video,
    )
    await ground.run(
        "insert into libraries (number, slug, name, absolute_path) overriding system value "
        "values (7, 'photos', 'P', '/p')"
    )
    asset = await ground.one(
        "insert into assets (library, folder, rel_path, type, mtime_ns, size, inode, shown_at) "
        "values (7, 0, '2024/cat.jpg', 'image', 1, 1, 1, now()) returning id"
    )
    chat = {"bot_id": "ada", "provider_name": "telegram", "correspondent_id": "4/9"}
    told = {
        "video.transcode": (str(video), {}, Subject("Our film", f"/videos/{video}")),
        "library.image": (str(asset), {}, Subject("2024/cat.jpg", f"/assets/{asset}")),
        "library.scan": ("7", {"slug": "photos"}, Subject("photos", "/libraries/photos")),
        "message.process": (
            "guid",
            {**chat, "original_filename": "a.ogg"},
            Subject("a.ogg", "/bots/ada/telegram/4%2F9"),
        ),
        "media.process": (None, {"original_filename": "b.pdf"}, Subject("b.pdf")),
        "file.analyse": ("999", {"name": "gone.pdf"}, Subject("gone.pdf")),
        "video.transcribe": ("nonsense", {}, None),
    }
    enqueuer = Enqueuer(ground.engine.kinds, ground.engine.payload_limit_bytes)
    async with served.database.transaction() as connection:
        jobs, ids = [], list[int]()
        for kind, (subject, payload, _) in told.items():
            id_ = await enqueuer.enqueue_job(connection, NewJob(kind, payload, owner="x", subject_id=subject))
            jobs.append({"id": id_, "kind": kind, "subject_id": subject})
            ids.append(id_)
        found = await subjects_of(connection, jobs)
    assert [found.get(id_) for id_ in ids] == [wanted for _, _, wanted in told.values()]
