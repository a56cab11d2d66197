"""`make mutants ROOM=engine`: a random sample of the mutants of a room, and those that no test notices.

Writes bench/results/mutants.json. How it is measured, and what the figures mean: docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import math
import os
import random
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench.frame import RESULTS
from bench.mutants.lab import OUTCOMES, Lab, Passed, bits
from bench.mutants.mutate import Mutant, mutants_of

ROOT = Path(__file__).resolve().parents[2]
ACCEPTED = Path(__file__).parent / "accepted.toml"
RESULT = RESULTS / "mutants.json"
CACHE = ROOT / ".cache" / "mutants"
ROOMS = ("access", "conversations", "engine", "inputs", "intake", "libraries", "staging", "worker")
# A mutant is given up as survived after the quickest tests that take this long together without it.
BUDGET_SECONDS = 20.0
# A test of the room that takes less than this long needs no database, and may be one that only looks at a table.
LOOK_SECONDS = 0.05
# Rooms of which much runs in processes of its own, where nobody sees which lines a test runs.
IN_PROCESSES = ("worker",)


def main() -> None:
    """From the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.mutants", description=__doc__)
    parser.add_argument("room", choices=ROOMS)
    parser.add_argument("--sample", type=int, default=150, help="how many mutants; 0 for all (default: 150)")
    parser.add_argument("--seed", type=int, default=1, help="which sample (default: 1)")
    parser.add_argument("--jobs", type=int, default=2, help="mutants at the same time (default: 2)")
    parser.add_argument(
        "--survivors", action="store_true", help="only those that survived in the recorded sample"
    )
    parser.add_argument(
        "--control", action="store_true", help="without the faults: what fails by chance? Not recorded"
    )
    parser.add_argument(
        "--tests",
        nargs="+",
        metavar="FOLDER",
        help="only these of the quick tests: sooner done, fewer killed",
    )
    parser.add_argument("--json", action="store_true", help="the result on standard output")
    options = parser.parse_args()
    os.chdir(ROOT)
    result = run_room(options)
    if options.json:
        print(json.dumps(result, indent=1))


def run_room(options: argparse.Namespace) -> dict[str, Any]:
    """Measures, prints and records."""
    folder = ROOT / "src" / "mediamill" / options.room
    every = [mutant for path in sorted(folder.rglob("*.py")) for mutant in mutants_of(path, ROOT)]
    sample = random.Random(options.seed).sample(every, min(options.sample or len(every), len(every)))
    recorded = read_results().get(options.room, {}).get(f"seed {options.seed}", {})
    chosen = sample
    if options.survivors:
        survived = {one["mutant"] for one in recorded["survivors"]}
        chosen = [mutant for mutant in sample if mutant.key in survived]
    if options.control:
        sample = chosen = [replace(mutant, new=mutant.old) for mutant in sample if mutant.function]
    tests = [*(options.tests or ["tests"]), f"tests/{options.room}", "--quick"]
    found = try_mutants(folder, tests, chosen, options.jobs)
    outcomes = [found.get(mutant, "killed") for mutant in sample]
    result = summary(sample, outcomes, of=len(every), seed=options.seed)
    if options.tests:
        result["only_tests"] = sorted({*options.tests, f"tests/{options.room}"})
    if options.survivors:
        result["timeouts"] += recorded["timeouts"]
        result["killed"] -= recorded["timeouts"]
    report(sample, outcomes, result)
    if not options.control:
        record(options.room, result)
    return result


def try_mutants(folder: Path, tests: list[str], mutants: list[Mutant], jobs: int) -> dict[Mutant, str]:
    """The outcome of each."""
    outcomes: dict[Mutant, str] = {}

    def work(lab: Lab) -> None:
        passed = baseline(lab, folder.parent, jobs)
        chosen = [(mutant, choose_tests(mutant, passed, folder)) for mutant in mutants]
        outcomes.update(run_all(lab, chosen, jobs))

    arguments = [
        *tests,
        "-q",
        "-s",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "--no-header",
        "--no-summary",
    ]
    code = pytest.main(arguments, plugins=[Lab(work)])
    if len(outcomes) < len(mutants):
        raise SystemExit(f"the run did not come to its end (pytest: {code})")
    return outcomes


def bar(text: str) -> Progress:
    """On standard error."""
    columns = (
        TextColumn(text),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}"),
    )
    return Progress(*columns, console=Console(file=sys.stderr))


# --- which tests run which lines ---


def baseline(lab: Lab, source: Path, jobs: int) -> dict[str, Passed]:
    """The tests that pass, from the last runs if neither the product nor the test's file has changed since."""
    cache = CACHE / "tests.jsonl"
    code = digest(path for path in source.rglob("*") if path.suffix in (".py", ".sql", ".html"))
    keys = {name: f"{code} {digest([ROOT / name.partition('::')[0]])}" for name in lab.items}
    cache.parent.mkdir(parents=True, exist_ok=True)
    rows = [json.loads(line) for line in cache.open()] if cache.exists() else []
    known = {row["test"]: row["passed"] for row in rows if keys.get(row["test"]) == row["key"]}
    missing = [name for name in lab.items if name not in known]
    with bar("tests without a fault") as progress, cache.open("a") as stream:
        task = progress.add_task("", total=len(missing), note="")
        folders = [source / room for room in ROOMS if (source / room).is_dir()] or [source]
        for name, passed in lab.measure(folders, missing, jobs) if missing else ():
            known[name] = asdict(passed) if passed else None
            print(
                json.dumps({"test": name, "key": keys[name], "passed": known[name]}), file=stream, flush=True
            )
            progress.advance(task)
    failed = [name for name, row in known.items() if row is None]
    if failed:
        print("these fail without a fault and are left out:", *failed, sep="\n  ", file=sys.stderr)
    return {name: Passed(**row) for name, row in known.items() if row}


def digest(paths: Iterable[Path]) -> str:
    """Of the contents."""
    found = hashlib.sha256()
    for path in sorted(paths):
        found.update(path.read_bytes())
    return found.hexdigest()


def choose_tests(mutant: Mutant, passed: dict[str, Passed], folder: Path) -> dict[str, float]:
    """With their seconds: first those that run the changed line, then those of the room, which may run it in another
    process; quick ones first. A further set of parameters of a test counts as slower: its first may have said it.

    What is outside of functions is run by importing it: the very quick tests of the room may notice, too, and if no
    line of the room names it, any test.
    """
    watched = {file: bits(lines) for file, lines in lines_to_watch(mutant, folder).items()}
    found = {
        name
        for name, test in passed.items()
        if any(test.runs(file, lines) for file, lines in watched.items())
    }
    own = f"tests/{folder.name}/"
    named_alike = f"{own}test_{Path(mutant.file).stem}"
    turns: dict[str, int] = {}
    seen: Counter[str] = Counter()
    for name in sorted(passed, key=lambda name: passed[name].seconds):
        test = name.partition("[")[0]
        turns[name], seen[test] = seen[test], seen[test] + 1

    def order(name: str) -> tuple[bool, bool, float]:
        seconds = passed[name].seconds * (1 + turns[name])
        return name not in found, not name.startswith(named_alike), seconds

    candidates = found
    if not mutant.function:
        found |= {
            name
            for name, test in passed.items()
            if name.startswith(f"{named_alike}.py") or (name.startswith(own) and test.seconds < LOOK_SECONDS)
        }
    if not found and not mutant.function:
        candidates = set(passed)
    elif not found or folder.name in IN_PROCESSES:
        candidates = found | {name for name in passed if name.startswith(own)}
    chosen: dict[str, float] = {}
    for name in sorted(candidates, key=order):
        chosen[name] = passed[name].seconds
        if sum(chosen.values()) > BUDGET_SECONDS:
            break
    return chosen


def lines_to_watch(mutant: Mutant, folder: Path) -> dict[str, set[int]]:
    """Of the statement; outside of functions, all that name what it defines."""
    if mutant.function:
        first, last = mutant.lines
        return {str(ROOT / mutant.file): set(range(first, last + 1))}
    return {str(path): set(lines_that_name(path, set(mutant.names))) for path in folder.rglob("*.py")}


def lines_that_name(path: Path, names: set[str]) -> Iterator[int]:
    """The lines of a file on which one of the names stands; of functions, those of the body."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name in names:
            yield from (one.lineno for one in node.body)
        elif isinstance(node, ast.Name | ast.Attribute | ast.keyword):
            name = {ast.Name: "id", ast.Attribute: "attr", ast.keyword: "arg"}[type(node)]
            if getattr(node, name) in names:
                yield node.lineno


# --- the mutants ---


def run_all(lab: Lab, chosen: list[tuple[Mutant, dict[str, float]]], jobs: int) -> dict[Mutant, str]:
    """Some at a time."""
    outcomes: dict[Mutant, str] = {}
    running: dict[int, Mutant] = {}
    with bar("mutants") as progress:
        task = progress.add_task("", total=len(chosen), note="")
        for mutant, tests in [*chosen, *([(None, {})] * jobs)]:
            while running and (len(running) == jobs or mutant is None):
                pid, status = os.wait()
                outcomes[running.pop(pid)] = OUTCOMES[os.waitstatus_to_exitcode(status)]
                survived = sum(outcome in ("survived", "not run") for outcome in outcomes.values())
                progress.update(task, completed=len(outcomes), note=f"{survived} survived")
            if mutant is None:
                continue
            if tests:
                running[lab.start(mutant, ROOT / mutant.file, tests)] = mutant
            else:
                outcomes[mutant] = "not run"
    return outcomes


# --- what was found ---


def summary(sample: list[Mutant], outcomes: list[str], of: int, seed: int) -> dict[str, Any]:
    """As recorded."""
    reasons = {
        one["mutant"]: one["reason"] for one in tomllib.loads(ACCEPTED.read_text()).get("accepted", [])
    }
    pairs = list(zip(sample, outcomes, strict=True))
    survivors = sorted((m.key, outcome) for m, outcome in pairs if outcome in ("survived", "not run"))
    caught = len(sample) - len(survivors)
    low, high = interval(caught, len(sample))
    return {
        "seed": seed,
        "mutants": of,
        "sampled": len(sample),
        "killed": outcomes.count("killed"),
        "timeouts": outcomes.count("timeout"),
        "survived": len(survivors),
        "no_test_runs_it": sum(outcome == "not run" for _, outcome in survivors),
        "score": percent(caught / len(sample)),
        "score_95": [percent(low), percent(high)],
        "survivors": [
            {"mutant": key, **({"reason": reasons[key]} if key in reasons else {})} for key, _ in survivors
        ],
    }


def percent(share: float) -> float:
    """With one digit."""
    return round(100 * share, 1)


def interval(hits: int, of: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson's: where the share of all mutants lies, with 95 % confidence."""
    share = hits / of
    middle = share + z * z / (2 * of)
    spread = z * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    return max(0.0, (middle - spread) / (1 + z * z / of)), (middle + spread) / (1 + z * z / of)


def report(sample: list[Mutant], outcomes: list[str], result: dict[str, Any]) -> None:
    """For people, on standard error."""
    accepted = {one["mutant"]: one.get("reason") for one in result["survivors"]}
    console = Console(file=sys.stderr, highlight=False, soft_wrap=True, markup=False)
    for mutant, outcome in sorted(
        zip(sample, outcomes, strict=True), key=lambda pair: (pair[0].file, pair[0].line)
    ):
        if outcome in ("survived", "not run"):
            text = "no test runs it" if outcome == "not run" else "survived"
            console.print(f"\n{mutant.file}:{mutant.line} {mutant.function}: {accepted[mutant.key] or text}")
            console.print(mutant.diff((ROOT / mutant.file).read_text()))
    low, high = result["score_95"]
    console.print(
        f"\nscore {result['score']} % (95 %: {low} to {high}) of {result['sampled']} out of {result['mutants']}:"
        f" {result['killed']} killed, {result['timeouts']} timeouts, {result['survived']} survived"
    )


def read_results() -> dict[str, Any]:
    """By room, then by seed."""
    return json.loads(RESULT.read_text()) if RESULT.exists() else {}


def record(room: str, result: dict[str, Any]) -> None:
    """Beside those of other rooms and seeds."""
    results = read_results()
    results.setdefault(room, {})[f"seed {result['seed']}"] = result
    RESULT.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
