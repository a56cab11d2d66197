"""The mutants of a small module, and which of them its tests notice."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.mutants.__main__ import choose_tests, interval
from bench.mutants.lab import Passed
from bench.mutants.mutate import mutants_of

MODULE = '''"""Prices."""

import logging

log = logging.getLogger("shop")
FREE_FROM = 50


def postage(total: int, *, express: bool = False) -> int:
    """What it costs to send."""
    assert total >= 0
    log.info("postage for %d", total)
    if total >= FREE_FROM and not express:
        return 0
    return 9 if express else 5


def note(kept: list[int], total: int) -> None:
    kept.append(total)
    raise_limit(kept, most=3)


def raise_limit(kept: list[int], most: int = 4) -> None:
    while len(kept) > most:
        del kept[0]


class Shop:
    currency = "EUR"
'''
TESTS = """from shop import Shop, note, postage


def test_postage():
    assert (postage(50), postage(49), postage(80, express=True)) == (0, 5, 9)


def test_note():
    kept = []
    note(kept, 7)
    assert kept == [7]


def test_currency():
    assert Shop.currency == "EUR"
"""
RUN = """import json, sys
from pathlib import Path
from bench.mutants import __main__ as program
from bench.mutants.mutate import mutants_of

program.ROOT = Path.cwd()
program.CACHE = Path.cwd() / "cache"
sys.path.insert(0, str(Path.cwd()))
folder = Path.cwd() / "code"
chosen = json.loads(sys.argv[1])
mutants = [one for one in mutants_of(folder / "shop.py", Path.cwd()) if one.key in chosen]
outcomes = program.try_mutants(folder, ["test_shop.py"], mutants, jobs=2)
print(json.dumps({mutant.key: outcome for mutant, outcome in outcomes.items()}))
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "shop.py").write_text(MODULE)
    (tmp_path / "test_shop.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = code\n")
    return tmp_path


def test_a_mutant_changes_one_place_and_keeps_the_lines(shop: Path) -> None:
    found = mutants_of(shop / "code" / "shop.py", shop)
    for mutant in found:
        compile(mutant.source, mutant.file, "exec")
        assert mutant.source.count("\n") == MODULE.count("\n")
        assert mutant.source != MODULE
    changes = {(mutant.old, mutant.new) for mutant in found}
    assert ("total >= FREE_FROM", "(total > FREE_FROM)") in changes
    assert ("kept.append(total)", "pass") in changes
    assert ("raise_limit(kept, most=3)", "raise_limit(kept)") in changes
    assert {("50", "51"), ("False", "True"), ("del kept[0]", "pass"), ("return 0", "return None")} <= changes


@pytest.mark.parametrize("text", ["Prices", "What it", "log.info", "assert", "getLogger", "postage for"])
def test_texts_for_people_and_for_mypy_are_left_alone(shop: Path, text: str) -> None:
    assert not [mutant for mutant in mutants_of(shop / "code" / "shop.py", shop) if text in mutant.old]


def test_mutants_that_a_test_notices_are_killed_and_the_others_survive(shop: Path) -> None:
    """In a process of its own, like every run: inside a function, a constant, a default, and the body of a class."""
    expected = {
        f"code/shop.py {function}: {old} -> {new}": outcome
        for function, old, new, outcome in (
            ("postage", "total >= FREE_FROM", "(total > FREE_FROM)", "killed"),
            ("note", "kept.append(total)", "pass", "killed"),
            ("<module>", "50", "51", "killed"),
            ("<module>", "False", "True", "killed"),
            ("<module>", '"EUR"', "'XXEUR'", "killed"),
            ("<module>", "4", "5", "survived"),
            ("note", "raise_limit(kept, most=3)", "raise_limit(kept)", "survived"),
            ("raise_limit", "del kept[0]", "pass", "not run"),
            ("raise_limit", "len(kept) > most", "(len(kept) >= most)", "survived"),
        )
    }
    command = [sys.executable, "-c", RUN, json.dumps(list(expected))]
    # A mutant of a module's body is a pytest of its own: without the plugins of this one, which the shop does not need.
    environment = {
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": str(Path.cwd()),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    done = subprocess.run(command, cwd=shop, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == expected


def test_a_sample_says_how_sure_it_is() -> None:
    low, high = interval(85, 100)
    assert (round(low, 2), round(high, 2)) == (0.77, 0.91)


def test_a_table_is_tried_with_the_very_quick_tests_of_its_room(shop: Path) -> None:
    """They may only look at it, and so run no line that names it."""
    passed = {
        "tests/code/test_other.py::test_looks": Passed(0.01, {}),
        "tests/code/test_other.py::test_works": Passed(3.0, {}),
        "tests/code/test_shop.py::test_works": Passed(2.0, {}),
        "tests/else/test_looks.py::test_looks": Passed(0.01, {}),
    }
    chosen = {
        mutant.old: list(choose_tests(mutant, passed, shop / "code"))
        for mutant in mutants_of(shop / "code" / "shop.py", shop)
    }
    assert chosen["50"] == ["tests/code/test_shop.py::test_works", "tests/code/test_other.py::test_looks"]
    assert set(chosen["kept.append(total)"]) == {name for name in passed if name.startswith("tests/code/")}
