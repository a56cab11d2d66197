"""The settings of the embedded server fit the machine, or the container, that it runs in."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mediamill.db import cluster


@pytest.mark.parametrize(
    ("limit", "megabytes"),
    [("268435456", 64), ("1073741824", 128), ("17592186044416", None), ("max", None)],
)
def test_buffers_are_an_eighth_of_the_memory_that_there_is(
    limit: str, megabytes: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "memory.max").write_text(limit)
    monkeypatch.setattr(cluster, "MEMORY_LIMIT", tmp_path / "memory.max")
    monkeypatch.setattr("os.sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 2 * 1024**2}.__getitem__)
    text = cluster.settings_text(tmp_path, None).decode()
    found = re.search(r"shared_buffers = '(\d+)MB'", text)
    assert found is not None
    assert int(found[1]) == (megabytes or 1024)  # of 8 GiB


def test_a_large_machine_leaves_its_memory_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_memory_bytes", lambda: 1 << 40)
    assert "shared_buffers = '4096MB'" in cluster.settings_text(tmp_path, None).decode()
