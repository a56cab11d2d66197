"""What several test files need lives in a module that is no test: importing a test file runs its fixtures elsewhere."""

import ast
from pathlib import Path

TESTS = Path(__file__).parents[1]
# Test files that lend to others as yet. The list only gets shorter.
LENDERS = {
    "tests.agents.test_contract",
    "tests.agents.test_pi",
    "tests.api.test_events",
    "tests.api.test_messages",
    "tests.api.test_projects",
    "tests.conversations.test_bot_life",
    "tests.conversations.test_door",
    "tests.crash.test_intake_killed",
    "tests.db.test_migrations",
    "tests.db.test_upgrade_with_data",
    "tests.deploy.test_metrics",
    "tests.engine.test_alert_sender",
    "tests.intake.test_hardening",
    "tests.libraries.test_scan",
    "tests.libraries.test_tagging",
    "tests.libraries.test_walk",
    "tests.media.test_images",
    "tests.media.test_sniff",
    "tests.processors.library.test_image",
    "tests.storage.test_bucket",
    "tests.stories.test_buckets",
    "tests.stories.test_chat",
    "tests.stories.test_libraries",
    "tests.stories.test_message",
    "tests.stories.test_remote_workers",
}


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
        if is_test(module) and module not in LENDERS
    ]
    assert not faults, "\n".join(faults)
