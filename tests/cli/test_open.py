"""Where `mediamill up` and `mediamill open` start a browser, and what other users see of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mediamill.cli import open as opening
from mediamill.settings import Settings

LINK = "http://127.0.0.1:8420/open?link=pass_1"


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"DISPLAY": ":0"}, True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, True),
        ({}, False),
        ({"DISPLAY": ""}, False),
        ({"DISPLAY": "localhost:10.0", "SSH_CONNECTION": "10.0.0.2 50000 10.0.0.1 22"}, False),
        ({"DISPLAY": ":0", "CI": "true"}, False),
    ],
)
def test_a_browser_is_opened_only_for_somebody_who_sits_there(
    environment: dict[str, str], expected: bool
) -> None:
    assert opening.has_display(environment) is expected


def test_the_link_is_not_on_the_command_line_of_the_browser(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []
    monkeypatch.setattr(opening, "has_display", lambda _environment: True)
    monkeypatch.setattr("webbrowser.open", shown.append)
    page = tmp_path / opening.PAGE
    page.write_text("of an earlier link, and open to all")
    page.chmod(0o644)
    before = os.umask(0)
    try:
        opening.show(LINK, Settings(data=tmp_path))
    finally:
        os.umask(before)
    assert shown == [page.as_uri()]
    assert LINK in page.read_text()
    assert page.stat().st_mode & 0o777 == 0o600
