"""The superuser of an embedded server, for benchmarks and tests that make databases and change settings."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit


def superuser_url(url: str, data_folder: Path, database: str = "postgres") -> str:
    """The address of another database on the server that this address of the product leads to."""
    password = (data_folder / "postgres.password").read_text().strip()
    parts = urlsplit(url)
    where = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=f"postgres:{password}@{where}", path=f"/{database}").geturl()
