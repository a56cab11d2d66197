"""What a file is: said by a person, by a rule of its project, or guessed from its words when it is read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from mediamill.db.connection import Connection
from mediamill.engine.enqueue import Enqueuer
from mediamill.intake.again import reprocess
from mediamill.intake.analyse import lock_content
from mediamill.intake.look import find_file
from mediamill.intake.model import BadCategoryError, clean_category
from mediamill.intake.projects import lock_project
from mediamill.intake.store import queries
from mediamill.settings import Settings

MOST_RULES, PATTERN_CHARACTERS = 100, 200
BATCH = 500


def check_rules(rules: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """Patterns of names, each with a category; the first that fits counts."""
    if len(rules) > MOST_RULES:
        raise BadCategoryError(f"a project has at most {MOST_RULES} rules")
    checked = []
    for rule in rules:
        pattern = " ".join(rule["pattern"].split())
        if not pattern or len(pattern) > PATTERN_CHARACTERS or not pattern.isprintable():
            raise BadCategoryError(
                f"a pattern has 1 to {PATTERN_CHARACTERS} characters", fix="write it like *receipt*"
            )
        checked.append({"pattern": pattern, "category": clean_category(rule["category"])})
    return checked


def category_by_rules(rules: str, name: str) -> str:
    """Of a file of this name; empty if no rule fits. Capital letters make no difference."""
    plain = name.casefold()
    found = (rule for rule in json.loads(rules) if fnmatchcase(plain, rule["pattern"].casefold()))
    return str(next(found, {"category": ""})["category"])


async def set_rules(connection: Connection, slug: str, rules: Sequence[Mapping[str, str]]) -> None:
    """All rules of a project anew; its files follow them, but for those of which a person said what they are."""
    checked = json.dumps(check_rules(rules))
    project = await lock_project(connection, slug)
    await queries.set_rules.run(connection, id=project["id"], rules=checked)
    after = 0
    while True:
        rows = await queries.uncategorised_after.rows(
            connection, project=project["id"], after=after, batch=BATCH
        )
        categories = [category_by_rules(checked, row["name"]) for row in rows]
        await queries.categorise.run(connection, ids=[row["id"] for row in rows], categories=categories)
        if len(rows) < BATCH:
            return
        after = rows[-1]["id"]


async def set_category(
    connection: Connection, enqueuer: Enqueuer, settings: Settings, file_id: int, category: str | None
) -> dict[str, Any]:
    """A person says what the file is; None: the rules, or its words, say it. It is analysed again if need be."""
    file = await find_file(connection, file_id)
    if category is None:
        said = category_by_rules(file["category_rules"], file["name"])
        by = "rule" if said else None
    else:
        said, by = clean_category(category), "person"
    await lock_content(connection, file["sha256"])
    await queries.lock_analyses_of_content.rows(connection, sha256=file["sha256"])
    await queries.set_category.run(connection, id=file_id, category=said, by=by)
    await queries.tell_files.run(connection, ids=[file_id])
    told = await reprocess(connection, enqueuer, settings, file_id)
    return dict(told["file"])
