"""What several test files need lives in a module that is no test: importing a test file runs its fixtures elsewhere."""

import ast
from pathlib import Path

TESTS = Path(__file__).parents[1]


def imported_by(path: Path) -> set[str]:
    """The modules that a file imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def is_test(module: str) -> bool:
    path = TESTS.parent.joinpath(*module.split(".")).with_suffix(".py")
    return module.startswith("tests.") and path.name.startswith("test_") and path.exists()


def test_no_test_file_is_imported() -> None:
    faults = [
        f"{path.relative_to(TESTS.parent)} imports {module}: move what it needs to a module that is no test"
        for path in sorted(TESTS.rglob("*.py"))
        for module in sorted(imported_by(path))
        if is_test(module)
    ]
    assert not faults, "\n".join(faults)
