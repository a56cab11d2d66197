"""How PostgreSQL's programs are called: nobody on the machine reads a password, and their complaints are ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from mediamill.backup.copying import Progress
from mediamill.backup.database import ToolFailedError, client_environment, load_database, split_password
from mediamill.db.postmaster import ENVIRONMENT


def test_a_password_is_not_on_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSFILE", "/srv/pgpass")
    monkeypatch.setenv("PGOPTIONS", "-c statement_timeout=1")
    address, password = split_password("postgresql://me:p%40ss%3A@db.example.org:5433/mill?sslmode=require")
    assert (address, password) == ("postgresql://me@db.example.org:5433/mill?sslmode=require", "p@ss:")
    environment = client_environment()
    assert environment["PGPASSFILE"] == "/srv/pgpass"
    assert "PGOPTIONS" not in environment
    assert environment.items() >= ENVIRONMENT.items()


@pytest.mark.parametrize(
    "url", ["postgresql://postgres@%2Fsrv%2Frun:5432/mediamill", "postgresql://db.example.org/mill"]
)
def test_an_address_without_one_stays_as_it_is(url: str) -> None:
    assert split_password(url) == (url, None)


def test_a_program_that_fails_says_why(tmp_path: Path, empty: str) -> None:
    (tmp_path / "dump").write_bytes(b"no dump at all")
    with pytest.raises(ToolFailedError, match=r"pg_restore failed: .*valid archive"):
        load_database(empty, 18, tmp_path / "dump", "0" * 64, Progress())
    with pytest.raises(ToolFailedError, match=r"(psql|pg_restore) failed"):
        load_database("postgresql://nobody@127.0.0.1:1/x", 18, tmp_path / "dump", "0" * 64, Progress())
