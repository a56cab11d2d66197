"""Phrases: the indexes of words also know which two words follow each other."""

from __future__ import annotations

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

# Two words that follow each other, with nothing between them but what English leaves out: a number of 18 bits for each
# such pair. Two pairs may share a number, so the text itself is asked in the end.
PAIRS = """
create function word_pairs(words tsvector) returns integer[] language sql immutable strict parallel safe
return (
    select array_agg(distinct hashtext(lexeme || ' ' || gap || ' ' || next) & 262143) from (
        select lexeme, lead(position) over follows - position as gap, lead(lexeme) over follows as next
        from unnest(words), unnest(positions) as position window follows as (order by position)) pairs
    where gap > 0)
"""
# What was written last waits in a list that every search reads: a short one.
SHORT = "with (gin_pending_list_limit = 256)"
INDEXES = {
    "assets": ("search_keys(id, library, type, tags_model_id)", f"{SHORT} where search_vector is not null"),
    "video_scenes": (
        "search_keys(id, library, 'video', tags_model_id)",
        f"{SHORT} where search_vector is not null",
    ),
    "video_frames": (
        "search_keys(id, library, 'video', tags_model_id)",
        f"{SHORT} where search_vector is not null",
    ),
    "search_entries": ("search_keys(id, null, source, null)", SHORT),
}


def upgrade() -> None:
    op.execute(PAIRS)
    _make_indexes(", word_pairs(search_vector)")
    # What the planner knows of an index of some rows it does not use for the table.
    for table, (keys, _) in INDEXES.items():
        op.execute(f"create statistics {table}_keys on ({keys}) from {table}")
        op.execute(f"create statistics {table}_pairs on (word_pairs(search_vector)) from {table}")
        op.execute(f"analyze {table}")


def downgrade() -> None:
    for table in INDEXES:
        op.execute(f"drop statistics {table}_keys, {table}_pairs")
    _make_indexes("")
    op.execute("drop function word_pairs")


def _make_indexes(more: str) -> None:
    for table, (keys, rest) in INDEXES.items():
        op.execute(f"drop index {table}_words")
        op.execute(f"create index {table}_words on {table} using gin (search_vector, {keys}{more}) {rest}")
