"""Every program of bench/ is run by a test: one that nobody runs rots, and its figures cannot be made again."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def is_program(path: Path) -> bool:
    return path.name == "__main__.py" or '__name__ == "__main__"' in path.read_text()


def named_in(path: Path) -> set[str]:
    """The modules that a file imports, or starts by name (`python -m`)."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
    return found


def test_every_bench_is_reached_by_a_test() -> None:
    files = {module_of(path): path for path in (ROOT / "bench").rglob("*.py")}
    waiting, reached = list((ROOT / "tests" / "bench").glob("test_*.py")), set[str]()
    while waiting:
        new = (named_in(waiting.pop()) & files.keys()) - reached
        reached |= new
        waiting += [files[module] for module in new]
    missing = sorted(module for module, path in files.items() if is_program(path) and module not in reached)
    assert missing == [], "give each a smoke run of seconds in tests/bench"
