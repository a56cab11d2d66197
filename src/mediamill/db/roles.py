"""The two roles of the embedded server: its superuser, which only sets it up, and `mediamill`, which does all the rest.

`mediamill` owns what is in the schema `public` of its database and nothing else: it can neither read files of the
server nor run programs there, whatever SQL somebody makes it say.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from urllib.parse import quote

from mediamill.db.cluster import Cluster
from mediamill.db.postmaster import POLL_SECONDS, PidFile, run_tool
from mediamill.db.root_user import EmbeddedServerError

DATABASE = ROLE = "mediamill"
SUPERUSER = "postgres"
OWN_SCHEMA = Path(__file__).with_name("own_schema.sql").read_text()
SET_UP = Path(__file__).with_name("set_up.sql").read_text() + OWN_SCHEMA
# After a backend was killed, or the disk filled up, the server recovers in the same process, still listed as "ready".
RECOVERING = "FATAL:  the database system is "
RECOVERY_SECONDS = 600.0
# Tables of another owner are those that an older mediamill has made meanwhile, as the superuser.
IS_SET_UP = """
select nspowner = current_user::regrole and to_regtype('vector') is not null
    and not exists (select from pg_class where relnamespace = n.oid and relowner <> nspowner)
from pg_namespace n where nspname = 'public'
"""


def ensure_set_up(cluster: Cluster, server: PidFile) -> None:
    """Make role and database if they are missing; the caller holds the lock that keeps others from doing so."""
    is_new = not cluster.role_password.exists()
    password = cluster.ensure_password(cluster.role_password)
    if is_new or not _is_set_up(server, password):
        superuser = _superuser_password(cluster)
        _run(server, SUPERUSER, superuser, SUPERUSER, f"\\set password '{password}'\n{SET_UP}")


def _superuser_password(cluster: Cluster) -> str:
    try:
        return cluster.superuser_password.read_text().strip()
    except FileNotFoundError:
        raise EmbeddedServerError(
            f"{cluster.superuser_password} is missing, and the embedded database must be set up.",
            fix="stop every mediamill process of this data folder: the next start makes another password",
        ) from None


def role_url(cluster: Cluster, server: PidFile) -> str:
    """The address of the database for everything that is not set-up."""
    host = quote(os.fsencode(server.socket_folder), safe="")
    password = cluster.ensure_password(cluster.role_password)
    return f"postgresql://{ROLE}:{password}@{host}:{server.port}/{DATABASE}"


def _is_set_up(server: PidFile, password: str) -> bool:
    try:
        return _run(server, ROLE, password, DATABASE, IS_SET_UP) == "t"
    except EmbeddedServerError:  # no such role, another password, no such database
        return False


def _run(server: PidFile, role: str, password: str, database: str, sql: str) -> str:
    where = ["-h", str(server.socket_folder), "-p", str(server.port), "-U", role, "-d", database]
    until = time.monotonic() + RECOVERY_SECONDS
    while True:
        try:
            return run_tool("psql", *where, "-XAtqw", said=sql, password=password)
        except EmbeddedServerError as error:
            if RECOVERING not in error.message or time.monotonic() > until:
                raise
            time.sleep(POLL_SECONDS)
