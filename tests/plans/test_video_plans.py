"""The statements of videos go by indexes and touch what they take, however many videos there are."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import pytest

from mediamill.videos.store import queries
from mediamill.videos.upload_store import queries as uploads
from tests.plans.frame import Case, Plans, check_plan, each, explained

TABLES = ("videos", "video_qualities", "video_files", "jobs", "dead_jobs", "uploads")
VIDEOS, TRASH, WAITING, SEGMENTS = 40_000, 50, 5_000, 30_000
NEWEST, MIDDLE = UUID(int=VIDEOS), UUID(int=VIDEOS // 2)
ID = "lpad(to_hex(n), 32, '0')::uuid"
# 40,000 videos with three qualities each, one of them a day long; 5,000 wait for their job, beside as many jobs of
# others; a few are in the trash.
FILL = (
    f"""insert into videos (id, slug, title, category, source_name, source_bytes, mime_type, state, output, created_at,
        deleted_at, transcript)
    select {ID}, 'video-' || n, 'Video ' || n, 'c' || n % 100, 'a.mp4', 1, 'video/mp4', 'ready', n,
        now() - make_interval(mins => {VIDEOS} - n),
        case when n % {VIDEOS // TRASH} = 0 then now() - make_interval(mins => n) end,
        jsonb_build_object('text', 'word' || n)
    from generate_series(1, {VIDEOS}) n""",
    f"""insert into video_qualities (video_id, job_id, quality, state)
    select {ID}, n, q, 'completed' from generate_series(1, {VIDEOS}) n, unnest('{{720p,480p,360p}}'::text[]) q""",
    f"""insert into video_files (video_id, output, name, bytes, sha256)
    select '{NEWEST}', {VIDEOS}, '720p-' || lpad(n::text, 5, '0') || '.m4s', 1, sha256('x')
    from generate_series(1, {SEGMENTS}) n""",
    f"""insert into video_files (video_id, output, name, bytes, sha256)
    select {ID}, n, 'master.m3u8', 1, sha256('x') from generate_series(1, {VIDEOS}) n""",
    f"""insert into jobs (kind, pool, owner, subject_id, state, payload, max_attempts, priority)
    select 'video.transcode', 'transcode', 'video:' || n, {ID}::text, 'queued', '{{}}', 3, 1
    from generate_series(1, {WAITING}) n""",
    f"""insert into jobs (kind, pool, owner, subject_id, state, payload, max_attempts, priority)
    select 'scripted.run', 'default', 'somebody', 's' || n, 'queued', '{{}}', 3, 1
    from generate_series(1, {WAITING}) n""",
    f"""insert into dead_jobs (id, kind, pool, owner, subject_id, payload, attempts, max_attempts, priority, reason,
        error, token, created_at)
    select {VIDEOS} + n, 'video.transcode', 'transcode', 'video:' || n, {ID}::text, '{{}}', 3, 3, 1, 'permanent', 'no',
        1, now() from generate_series(1, {WAITING}) n""",
    f"""insert into uploads (id, purpose, name, bytes, expires_at, fingerprint, finished_at)
    select gen_random_uuid(), 'video', 'a', 1, now(), 'f' || n, case when n % 2 = 0 then now() end
    from generate_series(1, {WAITING}) n""",
)
PAGE = {"state": None, "category": None, "words": None, "trash": False, "before": None, "amount": 50}
ONE = {"video_id": MIDDLE}
UPLOAD = {"id": NEWEST, "name": "a", "bytes": 1, "metadata": "{}", "keep_seconds": 60.0}
PROGRESS = {
    "job_id": 7,
    "state": "in_progress",
    "segments_total": 9,
    "segments_done": 1,
    "percent": 11.0,
    "error": None,
}
CASES = [
    Case(queries.list_videos, PAGE, 51),
    Case(queries.list_videos, PAGE | {"before": MIDDLE}, 52, "far back"),
    Case(queries.list_videos, PAGE | {"category": "c7"}, 50 * 100, "of a category"),
    Case(
        queries.list_videos, PAGE | {"words": "word777"}, VIDEOS, "with words"
    ),  # found at once, paged slowly
    Case(queries.find_id, {"id": MIDDLE, "slug": "x"}, 1),
    Case(queries.find_id, {"id": None, "slug": "video-77"}, 1, "by slug"),
    Case(queries.show_video, {"id": MIDDLE}, 1),
    Case(queries.show_video, {"id": UUID(int=77)}, 3, "that waits"),
    Case(queries.list_qualities, {"ids": [UUID(int=n) for n in range(1, 51)]}, 150),
    Case(queries.lock_video, {"id": MIDDLE}, 1),
    Case(queries.find_file, {"video_id": NEWEST, "output": VIDEOS, "name": "720p-00077.m4s"}, 2),
    Case(queries.note_quality, ONE | PROGRESS | {"quality": "720p"}, 2),
    Case(queries.note_quality, ONE | PROGRESS | {"quality": "2160p"}, 2, "that is new"),
    Case(queries.adopt_qualities, ONE | {"job_id": 7, "output": VIDEOS // 2, "qualities": ["720p"]}, 3),
    Case(queries.open_jobs, {"video_id": str(UUID(int=77))}, 1),
    Case(queries.dead_jobs, {"video_id": str(UUID(int=77))}, 0),
    Case(queries.old_trash, {"keep_days": 30, "batch": 100}, TRASH),
    Case(uploads.let_go_of_old, {"fingerprint": "f78", "bytes": 1}, 1),
    Case(uploads.add_upload, UPLOAD | {"fingerprint": "f78"}, 1),
    Case(queries.known_videos, {"ids": [UUID(int=n) for n in range(1, 101)]}, 100),
    Case(
        queries.unshown_outputs,
        {
            "video_ids": [UUID(int=n) for n in range(1, 101)],
            "outputs": list(range(1, 101)),
            "watched_seconds": 1.0,
        },
        100,
    ),
]


@pytest.fixture(scope="module")
def plans(server_url: str, template_url: str) -> Iterator[Plans]:
    with explained(server_url, FILL, TABLES, CASES) as plans:
        yield plans


@pytest.mark.spec("V12", "V13", "V14")
@each(CASES)
def test_no_table_is_scanned_and_few_rows_are_looked_at(plans: Plans, number: int, mode: str) -> None:
    check_plan(plans[number, mode], TABLES, CASES[number].examines)
