"""The site of docs/: it is whole, and what is wrong with a page stops it, with a word on what to do."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from scripts.site import ROOT, Pages, SiteError, build
from tests.built_site import built_site

HOME = "# Home\n\n## Start\n\n- [One](one.md): the only page\n"


@pytest.fixture
def small_project(tmp_path: Path) -> Path:
    """Documents of one page, and a file that they show."""
    shutil.copytree(ROOT / "docs" / "site", tmp_path / "docs" / "site")
    (tmp_path / "docs" / "README.md").write_text(HOME)
    (tmp_path / "docs" / "one.md").write_text(
        "# One\n\n## Here\n\n[Home](README.md), [a file](../shown.yaml).\n"
    )
    (tmp_path / "shown.yaml").write_text("answer: 42\n")
    return tmp_path


def test_every_page_is_in_the_list_of_its_folder_or_of_the_first_page() -> None:
    missing = Pages(ROOT).unlisted()
    assert missing == [], "\n".join(missing)


def test_the_site_is_built_without_a_complaint(tmp_path_factory: pytest.TempPathFactory) -> None:
    site = built_site(tmp_path_factory)
    pages = {path.relative_to(site).with_suffix("").as_posix() for path in site.rglob("*.html")}
    assert set(Pages(ROOT).names.values()) <= pages


def test_the_lists_of_the_first_page_are_the_navigation_and_files_are_shown(small_project: Path) -> None:
    build(small_project, small_project / "site")
    page = (small_project / "site" / "one.html").read_text()
    assert 'class="caption-text">Start<' in page
    assert 'href="files/shown.yaml.html"' in page
    assert "answer" in (small_project / "site" / "files" / "shown.yaml.html").read_text()


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        ("[gone](gone.md)", "docs/one.md: there is no gone.md"),
        ("[nowhere](one.md#gone)", "'gone'"),
        ("![picture](gone.png)", "docs/one.md: there is no gone.png"),
        ("```mermaidd\nA --> B\n```\n\n```{mermaidd}\n```", "mermaidd"),
    ],
    ids=["page", "heading", "picture", "directive"],
)
def test_what_is_broken_stops_it(small_project: Path, more: str, complaint: str) -> None:
    page = small_project / "docs" / "one.md"
    page.write_text(page.read_text() + f"\n{more}\n")
    with pytest.raises(SiteError, match=complaint):
        build(small_project, small_project / "site")


def test_a_page_in_no_list_stops_it_and_is_told_where_to_go(small_project: Path) -> None:
    (small_project / "docs" / "how-to").mkdir()
    (small_project / "docs" / "how-to" / "new.md").write_text("# New\n")
    with pytest.raises(SiteError, match=r"docs/how-to/new.md is in no list: add .* to docs/README.md"):
        build(small_project, small_project / "site")
