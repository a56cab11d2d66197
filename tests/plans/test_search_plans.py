"""The statements of search go by indexes and touch what they take, however much there is to be found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mediamill.db.queries import Query
from mediamill.search.indexes import index_of
from mediamill.search.nearest import CANDIDATES, nearest_of
from mediamill.search.store import queries
from mediamill.search.words import BLOCK, BLOCK_SHIFT, LIBRARY, MODEL, MOST_RANKED, SORT, SORTS, key
from tests.plans.frame import Case, Plans, check_plan, each, explained

TABLES = ("assets", "video_scenes", "search_entries", "search_vectors", "jobs")
ROWS, VECTORS, DIMENSIONS, WAITING = 34_000, 10_000, 32, 200
WORDS = "setweight(to_tsvector('simple', 'common w' || n % 1000 || ' only' || n), 'A')"
VECTOR = f"""(select ('[' || string_agg((random() - 0.5)::real::text, ',') || ']')::halfvec
    from generate_series(1, {DIMENSIONS}) where n > 0)"""
# Assets, scenes and entries, 34,000 of each (the third block has begun), all with one common word, one among a
# thousand, and one of their own. One asset in ten is of the second library, one in a thousand of the third. Vectors
# are of the first assets.
LIBRARY_OF = "case when n % 1000 = 0 then 3 when n % 10 = 0 then 2 else 1 end"
FILL = (
    f"""insert into ai_models (name, task, engine, dimensions) values ('eye@1', 'vision', 'local', null),
        ('text@1', 'text', 'local', {DIMENSIONS})""",
    "insert into libraries (slug, name, absolute_path) select 'l' || n, 'l', '/l' || n from generate_series(1, 3) n",
    f"""insert into assets (library, folder, rel_path, type, mtime_ns, size, inode, shown_at, status, tags_model_id,
        search_vector)
    select {LIBRARY_OF}, 1, n::text, case when n % 5 = 0 then 'video' else 'image' end, 0, 1, n,
        timestamptz '2024-01-01Z' + make_interval(mins => n), 'completed', 1, {WORDS}
    from generate_series(1, {ROWS}) n""",
    f"""insert into video_scenes (asset_id, library, number, start_ts, end_ts, sharpness_score, keep_reason,
        rep_frame_path, tags_model_id, search_vector)
    select 5 + n / 5 * 5 % {ROWS}, {LIBRARY_OF}, n % 5, 0, 1, 1, 'phash', 's.jpg', 1, {WORDS}
    from generate_series(0, {ROWS - 1}) n""",
    f"""insert into search_entries (source, subject, part, title, happened_at, embedded_by, search_vector)
    select (array['video', 'message', 'file'])[1 + n % 3], 'bot/' || n, 0, 'title',
        timestamptz '2024-01-01Z' + make_interval(mins => n), case when n > {WAITING} then 2 end, {WORDS}
    from generate_series(1, {ROWS}) n""",
    f"""insert into search_vectors (model_id, library, asset_id, v) select 2, {LIBRARY_OF}, n, {VECTOR}
    from generate_series(1, {VECTORS}) n""",
    f"""insert into search_vectors (model_id, entry_id, v) select 2, n, {VECTOR}
    from generate_series(1, {VECTORS // 10}) n""",
    index_of(queries.make_index, 2, DIMENSIONS).sql,
    f"""insert into jobs (kind, pool, owner, subject_id, state, payload, max_attempts, priority)
    select 'scripted.run', 'default', 'somebody', 's' || n, 'queued', '{{}}', 3, 1
    from generate_series(1, {ROWS // 10}) n""",
)
SET_UP = queries.set_up.sql.replace("$1", "0")
DATES = (
    "since",
    "until",
    "local_since",
    "local_until",
)  # a statement takes the first two, the others, or all
ANY = {**dict.fromkeys(DATES), "tagger": None, "types": None}
SOME = dict(zip(DATES, ("2024-02-01Z", "2024-02-02Z", "2024-02-01", "2024-02-02"), strict=True))
WORD: dict[str, Any] = {
    **dict.fromkeys(("pairs", "ranges", "libraries", "models", *DATES)),
    "most": MOST_RANKED,
    "amount": 500,
}
LAST = ROWS >> BLOCK_SHIFT
LATEST = {"ranges": [key(BLOCK, LAST), key(BLOCK, LAST - 1)]}
OF_THIRD = {"libraries": [key(LIBRARY, 3)]}
NEAR = {
    "model_id": 2,
    "libraries": [1, 2, 3],
    "entries": True,
    "narrow": False,
    "sources": [],
    **ANY,
    "v": "[" + ",".join(["0.5", "-0.25"] * (DIMENSIONS // 2)) + "]",
    "amount": CANDIDATES,
}


def found(query: Query, given: dict[str, Any], examines: int, name: str = "") -> Case:
    """As a search runs it. Unless it says so, the index is asked what the rows must match."""
    given = ({"words": given.get("query")} if "words" in query.parameters else {}) | given
    given = {name: value for name, value in given.items() if name not in DATES or name in query.parameters}
    return Case(query, given, examines, name, SET_UP)


def words(query: Query, **more: Any) -> list[Case]:
    """Rare, middling and common ones; what is narrowed is not read."""
    given = {name: value for name, value in (WORD | more).items() if name in query.parameters}
    return [
        found(query, given | {"query": "only777"}, 1, "one"),
        found(query, given | {"query": "w77"}, 100, "a hundred"),
        found(query, given | {"query": "w77 & only1077"}, 1, "two words"),
        found(query, given | {"query": "common"}, MOST_RANKED, "all"),
        found(query, given | LATEST | {"query": "common"}, MOST_RANKED, "the newest"),
        found(query, given | {"query": "nothing"}, 0, "none"),
        found(query, given | {"words": None, "query": "w77 <-> common", "pairs": [-1]}, 0, "in vain"),
    ]


SEARCHES = [
    *words(queries.asset_words, sorts=None),
    found(queries.asset_words, WORD | OF_THIRD | {"sorts": None, "query": "common"}, 100, "of a library"),
    found(
        queries.asset_words,
        WORD | OF_THIRD | {"sorts": [key(SORT, SORTS["image"])], "query": "common"},
        0,
        "of a library and type",
    ),
    found(
        queries.asset_words,
        WORD | {"sorts": None, "models": [key(MODEL, 9)], "query": "common"},
        0,
        "of a model",
    ),
    *words(queries.scene_words),
    found(queries.scene_words, WORD | OF_THIRD | {"query": "common"}, 100, "of a library"),
    found(queries.scene_words, WORD | SOME | {"query": "w77"}, 200, "of a day"),
    *words(queries.entry_words, sorts=None, types=None),
    found(queries.newest_ids, {}, 3),
    found(
        queries.few_vectors, {"model_id": 2, "libraries": [3], "entries": False, "most": 10_001}, 30, "few"
    ),
    found(
        queries.few_vectors,
        {"model_id": 2, "libraries": [1], "entries": True, "most": 10_001},
        10_001,
        "many",
    ),
    found(queries.compare_all, NEAR | {"libraries": [3], "entries": False}, 30),
    found(
        queries.compare_all,
        NEAR | SOME | {"libraries": [3], "entries": False, "narrow": True},
        60,
        "of a day",
    ),
    found(nearest_of(DIMENSIONS), NEAR, CANDIDATES),
    found(nearest_of(DIMENSIONS), NEAR | {"libraries": [2]}, 10 * CANDIDATES, "of a library"),
    found(nearest_of(DIMENSIONS), NEAR | {"narrow": True, "types": ["video"]}, 10 * CANDIDATES, "of a type"),
    found(queries.vectors_of, {"of": "asset", "id": 77, "libraries": [1]}, 1, "an asset"),
    found(queries.vectors_of, {"of": "entry", "id": 77, "libraries": [1]}, 1, "an entry"),
    found(
        queries.newest_assets,
        {
            "libraries": [1, 2, 3],
            "types": ["image", "video"],
            "statuses": ["completed"],
            **SOME,
            "tagger": None,
            "amount": 30,
        },
        180,
    ),
    found(
        queries.newest_entries,
        {"sources": None, "types": None, "since": None, "until": None, "amount": 30},
        30,
    ),
    found(queries.visible_assets, ANY | {"ids": list(range(1, 201)), "libraries": [1]}, 200),
    found(
        queries.visible_entries,
        {"ids": list(range(1, 201)), "sources": None, "types": None, "since": None, "until": None},
        200,
    ),
    found(queries.show_assets, {"ids": list(range(1, 31)), "query": "common"}, 30),
    found(queries.show_scenes, {"ids": list(range(1, 31)), "query": "common"}, 30),
    found(queries.show_entries, {"ids": list(range(1, 31)), "query": "common"}, 30),
]
ASSET = {"model_id": 2, "asset_id": 77, "scene_id": None, "frame_id": None, "entry_id": None}
WRITES = [
    Case(queries.drop_vectors, ASSET, 1, "of an asset"),
    Case(queries.drop_vectors, ASSET | {"asset_id": None, "entry_id": 77}, 1, "of an entry"),
    Case(queries.drop_vectors_of_assets, {"ids": list(range(1, 101))}, 100),
    Case(queries.copy_vectors, {"ids": list(range(20_001, 20_011)), "twins": list(range(1, 11))}, 20),
    Case(queries.drop_other_vectors, {"ids": list(range(1, 65)), "model_id": 1}, 64),
    Case(queries.drop_entries, {"source": "video", "subject": "bot/777", "from_part": 0}, 1),
    Case(queries.drop_entries_under, {"source": "message", "first": "bot/77/", "past": "bot/770"}, 0),
    Case(queries.take_unembedded, {"amount": 64}, 2 * WAITING),
    Case(queries.lock_embedded, {"ids": list(range(1, 65)), "job": 7}, 64),
    Case(queries.note_embedded, {"ids": list(range(1, 65)), "model_id": 2}, 64),
    Case(queries.forget_embed_jobs, {}, 0),
    Case(queries.open_embed_jobs, {}, 0),
]
CASES = SEARCHES + WRITES


@pytest.fixture(scope="module")
def plans(server_url: str, template_url: str) -> Iterator[Plans]:
    with explained(server_url, FILL, TABLES, CASES) as plans:
        yield plans


@pytest.mark.spec("L12", "L19")
@each(CASES)
def test_no_table_is_scanned_and_few_rows_are_looked_at(plans: Plans, number: int, mode: str) -> None:
    check_plan(plans[number, mode], TABLES, CASES[number].examines)
