"""Whatever is done to the names of files in a bucket costs as much as there are files in question, not in all."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mediamill.storage.store import queries
from tests.plans.frame import Case, Plans, check_plan, each, explained

TABLES = ("stored_pieces", "stored_garbage")
EACH = 100  # files of one stream
FILL = (
    "insert into stored_pieces (name, first, bytes, key, sha256) "
    "select 'videos/' || n / 100 || '/1/' || n % 100, 0, 1, md5(n::text), sha256(n::text::bytea) "
    "from generate_series(0, 99999) n",
    "insert into stored_garbage (key, at) select 'gone' || n, now() - make_interval(secs => n) "
    "from generate_series(1, 40000) n",
)
STREAM, VIDEO, FILE = "videos/17/1", "videos/17", "videos/17/1/5"
CASES = [
    Case(queries.list_pieces, {"name": FILE}, 1),
    Case(queries.facts_of, {"name": FILE}, 1),
    Case(queries.drop_names, {"names": [FILE]}, 1, "a file"),
    Case(queries.drop_names, {"names": [STREAM, "kept/001/1"]}, EACH, "a folder, and one that is not there"),
    Case(queries.drop_names, {"names": [f"videos/{n}/1/1" for n in range(300)]}, 300, "many files"),
    Case(queries.sizes_in, {"folder": STREAM}, EACH),
    Case(queries.folders_in, {"folder": VIDEO}, 2),
    Case(queries.count_in, {"folder": STREAM}, EACH),
    Case(queries.size_in, {"folder": STREAM}, EACH),
    Case(queries.age_of, {"folder": VIDEO}, EACH),
    Case(queries.old_folders, {"shard": VIDEO, "older_than_seconds": -60.0}, EACH),
    Case(queries.move_folder, {"source": STREAM, "target": "videos/new/1"}, EACH),
    Case(queries.rename_file, {"source": FILE, "target": "videos/new/source"}, 1),
    Case(queries.link_files, {"source": STREAM, "target": "kept/001/1", "names": ["1", "2"]}, 2),
    Case(queries.known_keys, {"keys": ["gone1", "none"]}, 2),
    Case(queries.forget_garbage, {"keys": ["gone1", "none"]}, 1),
]


@pytest.fixture(scope="module")
def plans(server_url: str, template_url: str) -> Iterator[Plans]:
    """Explained once for all cases."""
    with explained(server_url, FILL, TABLES, CASES) as found:
        yield found


@each(CASES)
def test_names_of_other_files_are_not_looked_at(plans: Plans, number: int, mode: str) -> None:
    check_plan(plans[number, mode], TABLES, CASES[number].examines)
