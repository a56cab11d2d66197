"""The statements of libraries go by indexes and touch what they take, however many assets there are."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mediamill.libraries.model import STATUSES, TYPES
from mediamill.libraries.store import queries
from tests.plans.frame import Case, Plans, check_plan, each, explained

TABLES = (
    "assets",
    "library_folders",
    "video_scenes",
    "video_frames",
    "search_vectors",
    "jobs",
)
ASSETS, FILES_EACH, OTHERS = 100_000, 10, 2_000
WAITING, AT_HAND, FAILED, GONE, OLD_RULES = 3_000, 100, 50, 60, 40
FOLDERS = ASSETS // FILES_EACH
NEWEST, MIDDLE = "2024-01-01 00:00Z", "2023-11-27 06:40Z"
# The first library has 100,000 assets, a video among ten, ten files in a folder; most are completed, some wait, have a
# job, failed, vanished; pictures come in pairs. A hundred thousand scenes. Four other libraries have few. Ids ascend
# as scans found them: asset n of the first library has id n.
FILL = (
    """insert into ai_models (name, task, engine, dimensions) values ('eye@1', 'vision', 'local', null),
        ('eye@2', 'vision', 'local', null), ('text@1', 'text', 'local', 8)""",
    "insert into system_metadata values ('default_tagger', '1')",
    """insert into libraries (slug, name, absolute_path, deleted_at, retag_after)
    select 'l' || n, 'l' || n, '/l' || n, case when n = 5 then now() end, 0 from generate_series(1, 5) n""",
    f"""insert into library_folders (library, rel_path, digest)
    select 1, 'd' || lpad(n::text, 6, '0'), sha256(n::text::bytea) from generate_series(1, {FOLDERS}) n""",
    f"""insert into library_folders (library, rel_path)
    select 2 + n % 4, 'd' || n from generate_series(1, {OTHERS}) n""",
    f"""insert into assets (library, folder, rel_path, type, mtime_ns, size, inode, shown_at, status, job_id, output,
        proxy_digest, segmentation_version, tags_model_id, vanished_at)
    select 1, 1 + n / {FILES_EACH}, 'd' || lpad((n / {FILES_EACH})::text, 6, '0') || '/' || n,
        case when n % 10 = 0 then 'video' else 'image' end, n, n, n, timestamptz '{NEWEST}' - make_interval(mins => n),
        case when n <= {WAITING} then (array['pending', 'proxied'])[1 + n / 2 % 2]
            when n <= {WAITING + AT_HAND} then 'extracting' when n <= {WAITING + AT_HAND + FAILED} then 'failed'
            else 'completed' end,
        case when n > {WAITING} and n <= {WAITING + AT_HAND} then n end, '1-1', sha256((n / 2)::text::bytea),
        case when n % 10 = 0 then case when n <= {10 * OLD_RULES} then 'scenes 0' else 'scenes 1' end end, 1,
        case when n > {ASSETS - GONE} then now() - interval '100 days' end
    from generate_series(1, {ASSETS}) n""",
    f"""insert into assets (library, folder, rel_path, type, mtime_ns, size, inode, shown_at, status, output)
    select 2 + n % 4, {FOLDERS} + n, n::text, 'image', n, n, n, now(), 'completed', '1-1'
    from generate_series(1, {OTHERS}) n""",
    f"""insert into video_scenes (asset_id, library, number, start_ts, end_ts, sharpness_score, keep_reason,
        rep_frame_path, tags, tags_model_id)
    select 10 * n, 1, number, number * 9, number * 9 + 9, 1, 'phash', 's.jpg', '[{{"label": "dog", "score": 1}}]', 1
    from generate_series(1, {ASSETS // 10}) n, generate_series(1, 10) number""",
    f"""insert into video_frames (asset_id, library, timestamp_ms, is_keyframe, frame_path, tags_model_id)
    select 10 * n, 1, number * 1000, true, 'f.jpg', 1
    from generate_series(1, {ASSETS // 10}) n, generate_series(1, 2) number""",
    """insert into search_vectors (model_id, library, asset_id, v) select 3, 1, n, '[1,0,0,0,0,0,0,0]'
    from generate_series(40000, 60000) n""",
    f"""insert into jobs (kind, pool, owner, subject_id, state, payload, max_attempts, priority)
    select 'scripted.run', 'default', 'somebody', 's' || n, 'queued', '{{}}', 3, 1
    from generate_series(1, {WAITING + 10}) n""",
)
IDS = list(range(50_000, 50_100))
VIDEOS = list(range(50_000, 51_000, 10))
PATHS = [f"d{n // FILES_EACH:06}/{n}" for n in IDS]
ALL = {"library": 1, "types": list(TYPES), "statuses": list(STATUSES)}
PAGE = {"until": None, "until_id": 10**9, "since": None, "since_id": 0, "amount": 100}
FAR = PAGE | {"until": MIDDLE}
# Of each type and status so many are read from the index, and the page itself from the table.
STRETCHES = len(TYPES) * len(STATUSES) * 100 + 100
JOBS = list(range(WAITING + 1, WAITING + AT_HAND + 1))
MODELS = {"text": 3, "look": 3}

FEED = [
    Case(queries.take_waiting, {"library": 1, "type": "image", "status": "pending", "amount": 100}, 100),
    Case(
        queries.take_waiting,
        {"library": 1, "type": "video", "status": "proxied", "amount": 100},
        100,
        "to tag",
    ),
    Case(
        queries.take_waiting, {"library": 2, "type": "video", "status": "pending", "amount": 100}, 0, "none"
    ),
    Case(queries.at_hand, {"library": None}, AT_HAND),
    Case(queries.at_hand, {"library": 1}, AT_HAND, "of one"),
    Case(queries.note_fed, {"ids": IDS, "jobs": IDS, "status": "extracting"}, 100),
    Case(queries.moments_left, MODELS | {"ids": VIDEOS, "tagger": 2, "most": 50}, 2200),
    Case(queries.find_twins, {"ids": list(range(2, WAITING, 30))}, 200),
    Case(queries.take_over, {"ids": [2, 6], "twins": IDS[:2]}, 4),
]
LOOK = [
    Case(queries.list_older, ALL | PAGE, STRETCHES),
    Case(queries.list_older, ALL | FAR, STRETCHES, "far back"),
    Case(queries.list_older, ALL | FAR | {"types": ["video"], "statuses": ["completed"]}, 200, "filtered"),
    Case(queries.list_older, ALL | PAGE | {"statuses": ["poisoned"]}, 0, "none"),
    Case(queries.list_newer, ALL | PAGE | {"since": MIDDLE}, STRETCHES),
    Case(queries.list_newer, ALL | PAGE | {"since": MIDDLE, "types": ["image"]}, STRETCHES, "images"),
    Case(queries.list_stretch, ALL | FAR | {"skip": 500}, 4 * STRETCHES),
    Case(queries.list_vanished, {**ALL, "until": None, "until_id": 10**9, "amount": 100}, GONE),
    Case(queries.list_by_path, ALL | {"path": PATHS[0], "walk": 500, "vanished": False, "amount": 100}, 500),
    Case(queries.walked_to, {"library": 1, "path": PATHS[0], "walk": 500}, 500),
    Case(queries.show_asset, {"id": 50_000}, 1),
    Case(queries.show_asset, {"id": JOBS[0]}, 2, "at hand"),
    Case(queries.find_asset, {"id": 50_000}, 1),
    Case(queries.scenes_of, {"asset_id": 50_000, "amount": 5000}, 20),
    Case(queries.frames_of, {"asset_id": 50_000, "amount": 5000}, 2),
    Case(queries.lock_failed, {"library": 1, "amount": 5000}, 2 * FAILED),
    Case(queries.retry_assets, {"ids": list(range(1, 101))}, 200),
    Case(queries.remake_batch, {"library": 1, "what": "all", "after": 0, "amount": 1000}, 4000),
    Case(queries.remake_asset, {"id": 77}, 1),
    Case(queries.resumable_jobs, {"ids": list(range(1, 101))}, 101),
    Case(queries.read_counting, {"libraries": [1, 2]}, 10),
]
SCAN = [
    Case(queries.has_assets, {"library": 1}, 1),
    Case(queries.has_assets, {"library": 77}, 0, "none"),
    Case(queries.newest_asset, {"library": 1}, 2),
    Case(queries.known_folders, {"library": 1, "after": "", "amount": 1000}, 1000),
    Case(queries.known_folders, {"library": 1, "after": "d005000/", "amount": 1000}, 1000, "far on"),
    Case(queries.folders_by_path, {"library": 1, "paths": [f"d{n:06}" for n in range(100, 300)]}, 200),
    Case(queries.assets_in_folders, {"folders": list(range(500, 600))}, 1000),
    Case(queries.assets_by_path, {"library": 1, "paths": PATHS}, 100),
    Case(
        queries.change_assets, {"ids": IDS, "folders": IDS, "mtimes": IDS, "sizes": IDS, "inodes": IDS}, 100
    ),
    Case(queries.keep_assets, {"ids": IDS, "folders": IDS, "inodes": IDS}, 100),
    Case(queries.vanish_assets, {"at": "now", "ids": IDS, "folders": [7, 8]}, 220),
    Case(queries.renamed_assets, {"library": 1, "at": "2020-01-01", "newest": ASSETS + OTHERS - 100}, 100),
    Case(queries.take_away_names, {"ids": IDS}, 100),
    Case(queries.rename_assets, {"ids": IDS, "folders": IDS, "paths": [f"new/{n}" for n in IDS]}, 100),
    Case(queries.change_folders, {"ids": [7, 8], "digests": [None] * 2, "mounts": [False] * 2}, 2),
    Case(queries.drop_folders, {"ids": [7, 8]}, 2),
]
CHORES = [
    Case(queries.pick_assets, {"library": 1, "after": PATHS[0], "batch": 500}, 500),
    Case(queries.pick_vectors, {"assets": IDS, "batch": 5000}, 100),
    Case(queries.pick_scenes, {"assets": VIDEOS, "batch": 500}, 500),
    Case(queries.pick_frames, {"assets": VIDEOS, "batch": 500}, 200),
    Case(queries.erase_vectors, {"ids": IDS}, 100),
    Case(queries.erase_scenes, {"ids": IDS}, 100),
    Case(queries.erase_frames, {"ids": IDS[:50]}, 50),
    Case(queries.erase_assets, {"ids": IDS, "library": 1}, 200),
    Case(queries.erase_folders, {"library": 1, "batch": 500}, 1000),
    Case(queries.unnamed_outputs, {"ids": IDS, "jobs": JOBS, "outputs": ["1-1"] * 100}, 200),
    Case(queries.forget_vanished, {"days": 30, "batch": 500}, 2 * GONE),
    Case(queries.forget_vanished, {"days": 300, "batch": 500}, GONE, "none"),
    Case(queries.invalidate_videos, {"version": "scenes 1", "batch": 500}, 4 * OLD_RULES),
    Case(queries.find_lost_jobs, {"amount": 500}, 2 * AT_HAND),
    Case(queries.forget_jobs, {"ids": JOBS, "jobs": JOBS}, AT_HAND),
    Case(queries.retag_batch, MODELS | {"number": 1, "after": 50_000, "target": 2, "amount": 500}, 1000),
]
SETTLE = [
    Case(queries.lock_asset, {"id": 50_000}, 1),
    Case(
        queries.keep_images,
        {
            "ids": JOBS,
            "jobs": JOBS,
            **{name: [None] * AT_HAND for name in ("outputs", "widths", "heights", "taken")},
            "facts": ["{}"] * AT_HAND,
            "digests": ["00"] * AT_HAND,
        },
        AT_HAND,
    ),
    Case(
        queries.give_up,
        {
            "ids": JOBS,
            "jobs": JOBS,
            "errors": ["no"] * AT_HAND,
            "statuses": ["failed"] * AT_HAND,
            "codes": [None] * AT_HAND,
            "counted": [1] * AT_HAND,
            "most": 5,
        },
        AT_HAND,
    ),
    Case(queries.lock_tagged, {"id": 50_000}, 1),
    Case(queries.sum_up_video, MODELS | {"id": 50_000, "tagger": 1, "reader": 0}, 23),
    Case(
        queries.finish_tagging,
        MODELS | {"id": 50_000, "tagger": 1, "is_wanted": True, "kept": True, "most": 5},
        24,
    ),
]
CASES = FEED + LOOK + SCAN + CHORES + SETTLE


@pytest.fixture(scope="module")
def plans(server_url: str, template_url: str) -> Iterator[Plans]:
    with explained(server_url, FILL, TABLES, CASES) as plans:
        yield plans


@pytest.mark.spec("L3", "L15", "L19")
@each(CASES)
def test_no_table_is_scanned_and_few_rows_are_looked_at(plans: Plans, number: int, mode: str) -> None:
    check_plan(plans[number, mode], TABLES, CASES[number].examines)
