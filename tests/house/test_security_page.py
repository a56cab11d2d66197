"""docs/security.md promises nothing that no test shows: docs/security-tests.md names the tests for each sentence."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from mediamill.access import passwords
from mediamill.api import bounds, callers, guard, login, strangers, welcome
from mediamill.conversations import access
from mediamill.testing.escape_attempts import ATTEMPTS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text()
TESTS = (ROOT / "docs" / "security-tests.md").read_text()
LINK = re.compile(r"\s\(\[tests\]\(security-tests\.md#([\w-]+)\)\)")
CHILD = "child"  # what the attempts do not show, and the row on media
COME_IN = "come-in"
Claims = dict[str, list[str]]


def part(heading: str) -> str:
    return PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]


def plain(text: str) -> str:
    """Without marks, links and line breaks."""
    return " ".join(re.sub(r"[`*]", "", re.sub(r"\[([^]]+)\]\([^)]*\)", r"\1", text)).split())


def promises() -> dict[str, str]:
    """What each row and each bullet says that we do, by the section that names its tests."""
    lines = part("Who may come in").splitlines()
    shown = [line.split(" | ")[1] for line in lines if line.count(" | ") == 1][1:]
    sentences = [line for line in lines if not line.startswith("|")]
    found = {COME_IN: plain(LINK.sub("", " ".join([*shown, *sentences]).replace("\n", " ")))}
    for row in re.findall(r"^\| \*\*(.+) \|$", part("The assets, and who may want them"), re.MULTILINE):
        who, _reach, stops, *_left = row.split(" | ")
        if not who.startswith("Whoever sends media"):
            (section,) = LINK.findall(who)
            found[section] = plain(stops)
    for bullet in re.split(r"^- ", part("How it is built"), flags=re.MULTILINE)[1:]:
        (section,) = LINK.findall(" ".join(bullet.split()))
        assert section not in found
        found[section] = plain(LINK.sub("", " ".join(bullet.split())).partition("** ")[2])
    return found


def claims() -> dict[str, Claims]:
    """Every section of the page of tests: sentences, each with its tests."""
    found: dict[str, Claims] = {}
    for text in re.split(r"^### ", TESTS, flags=re.MULTILINE)[1:]:
        name, _, rest = text.partition("\n")
        items = re.findall(r"^- (.+)\n((?:  - `.+`\n)*)", rest, re.MULTILINE)
        found[name] = {claim: re.findall(r"`(.+)`", tests) for claim, tests in items}
    return found


@cache
def names_in(file: str) -> set[str]:
    return set(re.findall(r"^(?:async )?def (test_\w+)\(", (ROOT / file).read_text(), re.MULTILINE))


def test_the_security_page_names_each_attempt_once_and_no_other() -> None:
    rows = [line for line in part("Inside a child process").splitlines() if line.startswith("| ")][1:]
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert sorted(named) == sorted(ATTEMPTS)


def test_every_row_and_bullet_has_its_section_of_tests() -> None:
    assert len(promises()) > 30
    assert claims().keys() == promises().keys() | {CHILD}


@pytest.mark.parametrize("section", promises())
def test_every_sentence_that_promises_something_is_among_the_claims(section: str) -> None:
    rest = promises()[section]
    for claim in claims()[section]:
        assert claim in rest, claim
        rest = rest.replace(claim, "", 1)
    assert not re.search(r"\w", rest), rest


@pytest.mark.parametrize("section", claims())
def test_every_claim_names_tests_that_exist(section: str) -> None:
    assert claims()[section]
    for claim, named in claims()[section].items():
        assert named, claim
        for test in named:
            file, _, name = test.partition("::")
            assert name in names_in(file), test


@pytest.mark.parametrize(
    ("words", "figure"),
    [
        ("at most {} KiB", bounds.HEAD_BYTES // 1024),
        ("KiB and {} lines", bounds.HEAD_LINES),
        ("within {} seconds; a body", bounds.HEAD_SECONDS),
        ("a body within {} seconds", guard.BODY_SECONDS),
        ("and after {} of them", bounds.BODY_GRACE_SECONDS),
        ("no slower than {} bytes a second", bounds.BODY_BYTES_PER_SECOND),
        ("or {} seconds once", bounds.LINGER_SECONDS),
        ("at most {} connections", strangers.STRANGERS_OF_ADDRESS),
        ("and {} in all, on which", strangers.MOST_STRANGERS),
        ("for each caller, {} in all", welcome.MOST_STREAMS),
        ("passwords have {} characters", passwords.SHORTEST),
        ("{} tries for a name", login.TRIES_BY_NAME),
        ("and {} of either", login.TRIES_BY_ADDRESS),
        ("address in {} minutes", login.TRIES_SECONDS / 60),
        ("{} wrong tokens", callers.MOST_FAILURES),
        ("per stranger and hour, {} in all", access.MOST_CODES),
    ],
)
def test_a_figure_of_the_page_is_the_one_in_force(words: str, figure: float) -> None:
    said = words.format(f"{figure:,.0f}")
    assert any(said in text for text in promises().values()), said
