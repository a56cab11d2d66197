"""Secrets in files: a command finds them there, and its environment does not show them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mediamill.cli.secret_files import SecretsUnreadableError, read_secret_files
from mediamill.settings import Settings

NAMES = ("MEDIAMILL_DATABASE_URL", "MEDIAMILL_TOKEN", "MEDIAMILL_WORKER_KEY", "OTHER_SECRET")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As Kubernetes mounts it: the names are links into a folder with a name of its own."""
    for name in NAMES:
        monkeypatch.setenv(name, "")  # so that what a test sets is undone
        del os.environ[name]
    monkeypatch.setenv("MEDIAMILL_SECRETS", str(tmp_path))
    (tmp_path / "..data").mkdir()
    return tmp_path


def put(folder: Path, name: str, content: str) -> None:
    (folder / "..data" / name).write_text(content)
    (folder / name).symlink_to(Path("..data") / name)


def test_each_file_is_a_setting_and_the_environment_of_the_process_does_not_show_it(folder: Path) -> None:
    put(folder, "MEDIAMILL_DATABASE_URL", "postgresql://a:s3cret@b/c\n")
    put(folder, "mediamill_token", "mill_s3cret")
    read_secret_files()
    settings = Settings()
    assert settings.database_url is not None
    assert settings.database_url.get_secret_value() == "postgresql://a:s3cret@b/c"
    assert settings.token is not None
    assert settings.token.get_secret_value() == "mill_s3cret"
    assert b"s3cret" not in Path("/proc/self/environ").read_bytes()


def test_a_variable_comes_before_its_file_and_other_files_are_left_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDIAMILL_WORKER_KEY", "of the environment")
    put(folder, "MEDIAMILL_WORKER_KEY", "of the file")
    put(folder, "OTHER_SECRET", "of somebody else")
    read_secret_files()
    assert os.environ["MEDIAMILL_WORKER_KEY"] == "of the environment"
    assert "OTHER_SECRET" not in os.environ


@pytest.mark.parametrize("where", ["missing", "a file", "not text"])
def test_secrets_that_cannot_be_read_are_a_clear_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    other = folder / where
    if where == "a file":
        other.touch()
    elif where == "not text":
        other.mkdir()
        (other / "MEDIAMILL_TOKEN").write_bytes(b"\xff\xfe")
    monkeypatch.setenv("MEDIAMILL_SECRETS", str(other))
    with pytest.raises(SecretsUnreadableError, match="MEDIAMILL_SECRETS cannot be read"):
        read_secret_files()
