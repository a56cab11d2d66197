"""A clock that tests can move: what is stored becomes older, and somebody could have worked meanwhile, or not."""

from __future__ import annotations

from mediamill.db.connection import Database

# Everything by which the janitors judge ages, and what tells that somebody lives.
TIMES = {
    "jobs": ("created_at", "run_after", "claimed_at", "started_at", "progress_at", "lease_expires_at"),
    "arrivals": ("accepted_at", "ready_at"),
    "served": ("since_at", "until_at"),
    "workers": ("heartbeat_at", "registered_at"),
    "awaited_files": ("awaited_at",),
}


async def let_time_pass(database: Database, hours: float, *, served: bool) -> None:
    """So many hours go by. Served: a server and workers of all pools could have worked. Else: nothing ran at all."""
    async with database.transaction() as connection:
        await connection.execute("delete from throughput")  # no pool has ended a job in that time
        for table, columns in TIMES.items():
            moved = ", ".join(
                f"{column} = {column} - $1 * interval '1 hour'"
                for column in columns
                if not (served and column == "lease_expires_at")  # its worker has extended it
            )
            await connection.execute(f"update {table} set {moved}", hours)
        await connection.execute(
            "update arrivals set message = message || jsonb_build_object('accepted_time', "
            "(message ->> 'accepted_time')::timestamptz - $1 * interval '1 hour') where message is not null",
            hours,
        )
        if served:
            await connection.execute(
                "insert into served select pool, now() - $1 * interval '1 hour', now() "
                "from (select '' as pool union all select name from pools) pools",
                hours,
            )
