"""Media: pools by mime type, with patterns; a notice for the sender of what could not be processed."""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

# The most telling match wins: the kind, the mime type itself, its family, any mime type at all, the catch-all.
POOL_FOR = """
create function pool_for(job_kind text, job_mime_type text) returns text language sql stable as $$
    select name from pools
    where job_kind = any (matches)
        or (job_mime_type is not null
            and matches && array[job_mime_type, split_part(job_mime_type, '/', 1) || '/*', '*/*'])
        or matches = '{}'
    order by job_kind = any (matches) desc,
        coalesce(job_mime_type = any (matches), false) desc,
        coalesce(split_part(job_mime_type, '/', 1) || '/*' = any (matches), false) desc,
        matches <> '{}' desc
    limit 1
$$
"""

DOCUMENTS = (
    "application/pdf",
    "application/rtf",
    "application/json",
    "application/xml",
    "application/epub+zip",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "application/vnd.oasis.opendocument.text",
    "application/vnd.oasis.opendocument.spreadsheet",
    "application/vnd.oasis.opendocument.presentation",
    "application/msword",
    "application/vnd.ms-excel",
    "application/vnd.ms-powerpoint",
    "application/x-ooxml-protected",
    "message/rfc822",
    "text/*",
)
CORRUPT = tuple(f"media_corrupt_{kind}" for kind in ("image", "video", "audio", "document", "sticker"))
GIBIBYTE = 1 << 30
# name, matches, processor, concurrency, time limit in seconds, memory
POOLS = (
    ("audio", ("audio/*",), "audio", 2, 300, 2 * GIBIBYTE),
    ("video", ("video/*",), "video", 1, 600, 3 * GIBIBYTE),
    ("image", ("image/*",), "image", 3, 120, 2 * GIBIBYTE),
    ("documents", DOCUMENTS, "document", 2, 120, 2 * GIBIBYTE),
    ("stickers", ("image/webp",), "sticker", 2, 60, 2 * GIBIBYTE),
    ("corrupt", CORRUPT, "corrupt", 1, 10, GIBIBYTE),
    ("unsupported", ("*/*",), "unsupported", 1, 10, GIBIBYTE),
)


def upgrade() -> None:
    op.execute("alter table dead_jobs add column notice text")
    op.execute(POOL_FOR)
    for name, matches, processor, concurrency, timeout_seconds, memory_bytes in POOLS:
        listed = ", ".join(f"'{match}'" for match in matches)
        op.execute(
            f"insert into pools values ('{name}', array[{listed}], '{processor}', {concurrency}, "  # noqa: S608
            f"{timeout_seconds}, 2, 300, 900, true, 2, 300, {memory_bytes}, false, 10800) "
            "on conflict (name) do nothing"
        )


def downgrade() -> None:
    catch_all = "(select name from pools where matches = '{}')"
    names = ", ".join(f"'{pool[0]}'" for pool in POOLS)
    op.execute(f"update jobs set pool = {catch_all} where pool in ({names})")  # noqa: S608
    op.execute(f"delete from pools where name in ({names})")  # noqa: S608
    op.execute("drop function pool_for(text, text)")
    op.execute("alter table dead_jobs drop column notice")
