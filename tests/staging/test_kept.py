"""Kept files and derivatives: which names they have, who may keep one, and what the sweep leaves."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mediamill.db.connection import Database
from mediamill.engine.settle import Finish, finish_plain_jobs
from mediamill.errors import ClaimLostError
from mediamill.staging import kept
from mediamill.staging.derivatives import home_of, keep_files, sweep_derivatives
from mediamill.staging.kept import (
    BadKeptFileError,
    BadKeptNameError,
    CannotKeepError,
    Kept,
    adopt_files,
    check_kept_name,
    forget_kept,
    keep_file,
    kept_folder,
    list_kept,
    part_path,
    sweep_kept,
)
from mediamill.staging.received import (
    BadDerivativePathError,
    BadResultFilesError,
    FileTooLargeError,
    check_named,
    derivative_name,
    put_derivative,
)
from mediamill.staging.received import Received as CameIn
from mediamill.storage.deletions import hold_deletions
from tests.staging.keeping import DATA, DIGEST, JOB, claim, new


async def names(database: Database, data: Path, job_id: int) -> list[str]:
    async with database.connection() as connection:
        return [one.name for one in await list_kept(connection, data, job_id)]


def age(*folders: Path) -> None:
    for folder in folders:
        os.utime(folder, (0, 0))


def test_a_kept_file_has_a_plain_name_in_the_folder_of_its_job(tmp_path: Path) -> None:
    assert (kept_folder(7), kept_folder(12_345)) == ("kept/007/7", "kept/345/12345")
    for name in ("a", "0.m4s", "v0-1_b.mp4", "a" * 100):
        assert check_kept_name(name) == name
    for name in ("", ".a", "-a", "A", "a/b", "a" * 101, "ä"):
        with pytest.raises(BadKeptNameError, match="cannot be the name of a kept file"):
            check_kept_name(name)
    first, second = part_path(tmp_path, 7), part_path(tmp_path, 7)
    assert first != second
    assert first.parent == second.parent == tmp_path / "kept/007/7"
    assert first.name.startswith(".part-")
    assert first.parent.stat().st_mode & 0o777 == 0o700


async def test_only_the_holder_of_a_job_keeps_a_file_and_only_the_one_it_announced(
    database: Database, tmp_path: Path
) -> None:
    (job,) = await claim(database, 1)
    facts = {"seconds": 7}
    await keep_file(database, tmp_path, job, new(tmp_path, job, facts=facts), 60)
    async with database.connection() as connection:
        assert await list_kept(connection, tmp_path, job.id) == [Kept("v0.m4s", 9, DIGEST, facts)]
        left = "select extract(epoch from lease_expires_at - now()) from jobs"
        assert 0 < await connection.fetchval(left) <= 60
    assert (tmp_path / kept_folder(job.id) / "v0.m4s").read_bytes() == DATA
    lost = replace(job, token=job.token + 1)
    for holder, one, error in (
        (lost, new(tmp_path, job, "v1.m4s"), ClaimLostError),
        (job, new(tmp_path, job, "V1.m4s"), BadKeptNameError),
        (job, new(tmp_path, job, "v1.m4s", bytes=8), BadKeptFileError),
        (job, new(tmp_path, job, "v1.m4s", facts={"a": "x" * 4088}), BadKeptFileError),
        (job, replace(new(tmp_path, job, "v1.m4s"), path=tmp_path / "gone"), CannotKeepError),
        (job, replace(new(tmp_path, job, "v1.m4s"), path=tmp_path), BadKeptFileError),
    ):
        with pytest.raises(error):
            await keep_file(database, tmp_path, holder, one, 60)
    twin = new(tmp_path, job, "v1.m4s")
    os.link(twin.path, tmp_path / "twin")
    with pytest.raises(BadKeptFileError, match="not the file that was announced"):
        await keep_file(database, tmp_path, job, twin, 60)
    assert await names(database, tmp_path, job.id) == ["v0.m4s"]
    most = new(tmp_path, job, "v2.m4s", facts={"a": "x" * (4096 - len('{"a": ""}'))})
    await keep_file(database, tmp_path, job, most, 60)
    (tmp_path / kept_folder(job.id) / "v0.m4s").write_bytes(b"cut")
    assert await names(database, tmp_path, job.id) == ["v2.m4s"], "one of another size is not kept"


async def test_what_is_kept_goes_when_its_job_has_ended_for_good(database: Database, tmp_path: Path) -> None:
    done, runs = await claim(database, 2)
    for job in (done, runs):
        await keep_file(database, tmp_path, job, new(tmp_path, job), 60)
    source = tmp_path / "videos/1"
    source.mkdir(parents=True)
    (source / "a.mp4").write_bytes(DATA)
    async with database.transaction() as connection:
        await adopt_files(connection, tmp_path, runs.id, "videos/1", [Kept("a.mp4", 9, DIGEST, {"b": 1})])
        await finish_plain_jobs(connection, done.worker_id, [Finish(done)])
    assert sorted(await names(database, tmp_path, runs.id)) == ["a.mp4", "v0.m4s"]
    folders = [tmp_path / kept_folder(job.id) for job in (done, runs)]
    odd = tmp_path / "kept/001/not-a-job"
    long = tmp_path / "kept/001" / ("1" * 19)
    for folder in (odd, long):
        folder.mkdir(parents=True)
    assert await sweep_kept(database, tmp_path) == 0, "it is young"
    age(*folders, odd, long)
    with hold_deletions(tmp_path):
        assert await sweep_kept(database, tmp_path) == 0
    assert await sweep_kept(database, tmp_path) == 1
    assert [folder.exists() for folder in (*folders, odd, long)] == [False, True, True, True]
    async with database.transaction() as connection:
        await forget_kept(connection, [runs.id])
    assert await names(database, tmp_path, runs.id) == []
    assert kept._is_kept("kept/001/" + "1" * 18)


def test_the_home_of_a_derivative_is_that_of_its_claim_or_beside_what_the_payload_names() -> None:
    assert str(home_of(JOB)) == "derivatives/234/1234-5"
    for home in ("libraries/001/7", "intake/outputs/001/7"):
        assert str(home_of(replace(JOB, payload_json=json.dumps({"home": home})))) == f"{home}-1234-5"
    for odd in ("videos/001/7", "libraries/001/../7", "libraries/1/7", 7, None):
        assert home_of(replace(JOB, payload_json=json.dumps({"home": odd}))) == home_of(JOB)


def test_the_path_of_a_derivative_stays_in_its_folder() -> None:
    assert derivative_name(JOB, "a/b c-1.webp") == "derivatives/234/1234-5/a/b c-1.webp"
    assert derivative_name(JOB, "/".join("abcdefgh")).endswith("/a/b/c/d/e/f/g/h")
    assert derivative_name(JOB, "a" * 100).endswith("a" * 100)
    for path in ("", "/a", "a/", "../a", "a/../b", ".a", "a//b", "a" * 101, "/".join("abcdefghi"), "a\0"):
        with pytest.raises(BadDerivativePathError):
            derivative_name(JOB, path)


async def test_a_result_names_only_files_that_came_with_its_claim(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a/b.webp", "c.webp"):
        path = tmp_path / "part"
        path.write_bytes(DATA)
        await put_derivative(
            database, tmp_path, JOB, CameIn(path, len(DATA), DIGEST), derivative_name(JOB, name)
        )
    home = str(home_of(JOB))

    async def check(**files: Any) -> None:
        async with database.connection() as connection:
            await check_named(connection, tmp_path, JOB, {"files": files})

    await check(a={"path": f"{home}/a/b.webp", "bytes": 9}, c={"path": f"{home}/c.webp", "bytes": 9}, d={})
    async with database.connection() as connection:
        unnamed: list[Any] = [None, [], {"files": []}, {"text": "a"}]
        for result in unnamed:
            await check_named(connection, tmp_path, JOB, result)
    for wrong in (
        {"path": f"{home}/a/b.webp", "bytes": 8},
        {"path": f"{home}/d.webp", "bytes": 9},
        {"path": "derivatives/234/1234-6/c.webp", "bytes": 9},
        {"path": f"{home}/../1234-5/c.webp", "bytes": 9},
        {"path": 7},
        "a text",
    ):
        with pytest.raises(BadResultFilesError, match="'x' was not sent with this result"):
            await check(x=wrong)
    path.write_bytes(DATA)
    with pytest.raises(BadDerivativePathError, match="is a folder and a file"):
        await put_derivative(database, tmp_path, JOB, CameIn(path, 9, DIGEST), f"{home}/c.webp/d")
    monkeypatch.setattr("mediamill.staging.received.MOST_DERIVATIVES", 2)
    with pytest.raises(FileTooLargeError, match="may have 2 derivatives"):
        await put_derivative(database, tmp_path, JOB, CameIn(path, 9, DIGEST), f"{home}/e")


async def test_derivatives_go_with_their_job_and_with_claims_that_were_lost(
    database: Database, tmp_path: Path
) -> None:
    done, runs = await claim(database, 2)
    homes = {}
    for job in (done, replace(done, token=done.token + 7), runs, replace(runs, id=99_999)):
        scratch = tmp_path / "scratch"
        scratch.mkdir(exist_ok=True)
        (scratch / "a.webp").write_bytes(DATA)
        files = await keep_files(database, tmp_path, job, scratch, {"preview": "a.webp"})
        assert files == {"preview": {"path": f"{home_of(job)}/a.webp", "bytes": 9}}
        homes[job.id, job.token] = tmp_path / str(home_of(job))
    result = json.dumps({"files": {"preview": {"path": f"{home_of(done)}/a.webp"}}})
    async with database.transaction() as connection:
        await finish_plain_jobs(connection, done.worker_id, [Finish(done, result)])
    assert await sweep_derivatives(database, tmp_path) == 0, "they are young"
    age(*homes.values())
    with hold_deletions(tmp_path):
        assert await sweep_derivatives(database, tmp_path) == 0
    assert await sweep_derivatives(database, tmp_path) == 2
    assert [home.exists() for home in homes.values()] == [True, False, True, False]
