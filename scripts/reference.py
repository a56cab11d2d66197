"""Writes docs/reference/ from the code: settings, commands, job kinds, the HTTP API. `--check` only looks."""

import argparse
import sys
from collections.abc import Callable, Iterator
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, get_args

import typer
from pydantic_core import PydanticUndefined

from mediamill.access.model import MEANINGS, Scope
from mediamill.api.scopes import API, Access
from mediamill.api.scopes import PAGES as WEB_PAGES
from mediamill.app import all_kinds
from mediamill.cli.command import build_app
from mediamill.processors.registry import processor_names
from mediamill.settings import Settings

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "reference"
NAMES: dict[type, str] = {str: "TEXT", int: "NUMBER", float: "NUMBER", Path: "FILE"}
MADE = "<!-- Made by scripts/reference.py from the code; change the code, then run it again. -->"


def write_settings() -> str:
    """Every setting with its default and description."""
    lines = [
        "# Settings",
        "",
        MADE,
        "",
        "All of them are variables of the environment, read once at the start; `mediamill check` finds faults in them.",
        "`MEDIAMILL_DEBUG=1` makes the command show the traceback of an error.",
        "",
        "| variable | default | what it does |",
        "|---|---|---|",
    ]
    for name, field in Settings.model_fields.items():
        default = (
            "unset" if field.default in (None, "", PydanticUndefined) else f"`{_default(field.default)}`"
        )
        lines.append(f"| `MEDIAMILL_{name.upper()}` | {default} | {_cell(field.description or '')} |")
    return "\n".join(lines) + "\n"


def _default(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def walk_commands(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command and group below, each with the words that call it."""
    for name, each in getattr(command, "commands", {}).items():
        if not each.hidden:
            yield (*path, name), each
            yield from walk_commands(each, (*path, name))


def all_commands() -> list[tuple[str, Any]]:
    """Every command, groups too, by its whole name."""
    root = typer.main.get_command(build_app())
    return [(" ".join(path), command) for path, command in walk_commands(root, ("mediamill",))]


def write_commands() -> str:
    """Every command with its arguments, options and examples."""
    lines = [
        "# Commands",
        "",
        MADE,
        "",
        "`--json` prints JSON and nothing else on stdout. Exit codes: 0 done, 1 failed, 2 wrong usage, 130 Ctrl-C, 141",
        "the reader of stdout left early (`| head`).",
        "`mediamill --debug …` shows the traceback of an error.",
    ]
    for name, command in all_commands():
        lines += ["", f"{'##' if name.count(' ') == 1 else '###'} {name}", "", (command.help or "").strip()]
        if not hasattr(command, "commands"):
            lines += _parameters(command)
            lines += _examples(command.epilog)
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _parameters(command: Any) -> list[str]:
    rows = [_parameter(each) for each in command.params if each.name != "help"]
    return ["", "| argument or option | what it does |", "|---|---|", *rows] if rows else []


def _parameter(given: Any) -> str:
    if given.param_type_name == "argument":
        name = given.metavar or given.name.upper()
    else:
        name = ", ".join(given.opts) + ("" if given.is_flag else f" {given.metavar or _type(given)}")
    shown = (
        given.default is not None
        and given.default not in (False, "", ())
        and given.param_type_name != "argument"
    )
    default = f" Default: {given.default}." if shown else ""
    must = " Required." if given.required else ""
    return f"| `{_cell(name)}` | {_cell((given.help or '').strip())}{must}{default} |"


def _type(given: Any) -> str:
    kind = given.type_descriptor.annotation
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "|".join(str(member.value) for member in kind)
    choices = get_args(kind)
    return "|".join(map(str, choices)) if choices else NAMES.get(kind, kind.__name__.upper())


def _examples(epilog: str | None) -> list[str]:
    lines = [line.strip() for line in (epilog or "").splitlines()]
    shown = [line for line in lines if line and line not in ("\b", "Examples:")]
    return ["", "```sh", *shown, "```"] if shown else []


def write_kinds() -> str:
    """Every job kind, and every processor that a pool can name."""
    kinds = all_kinds(Settings())
    lines = ["# Job kinds", "", MADE, "", "| kind | runs | what it does |", "|---|---|---|"]
    for name in kinds.names():
        kind = kinds.get(name)
        where = (
            "the processor of its pool, in a child process" if kind.handler is None else "inside the worker"
        )
        lines.append(f"| `{name}` | {where} | {_cell(kind.description)} |")
    lines += [
        "",
        "Processors that a pool can name: " + ", ".join(f"`{name}`" for name in processor_names()) + ".",
    ]
    return "\n".join(lines) + "\n"


def write_routes() -> str:
    """Every route with who may call it."""
    lines = [
        "# Routes",
        "",
        MADE,
        "",
        "Every route there is, with the scope that a user or token needs for it. On loopback, as it is by default,",
        "whoever is on the machine has all scopes. Who may `GET` may ask for the `HEAD`.",
        "A change with a name in the last column is noted in the audit log under it.",
        "",
        "| scope | what it is for |",
        "|---|---|",
        *(f"| `{scope}` | {meaning} |" for scope, meaning in MEANINGS.items()),
    ]
    for title, routes in (("The API", API), ("The pages", WEB_PAGES)):
        lines += ["", f"## {title}", "", "| method | path | who | audit log |", "|---|---|---|---|"]
        lines += [_route(name, access) for name, access in routes.items()]
    return "\n".join(lines) + "\n"


def _route(name: str, access: Access) -> str:
    method, _, path = name.partition(" ")
    who = f"`{access.who}`" if isinstance(access.who, Scope) else access.who
    limited = ", limited in number" if access.costly else ""
    noted = f"`{access.audit}`" if access.audit else ""
    return f"| {method} | `{path}` | {who}{limited} | {noted} |"


@cache
def all_pages() -> dict[str, Callable[[], str]]:
    """What writes each page, by its name. Those of the API need its whole document, which takes a while to build."""
    sys.path.append(str(ROOT))  # as a script, this file sees only its neighbours
    from scripts.reference_api import api_pages

    return {
        "settings.md": write_settings,
        "commands.md": write_commands,
        "kinds.md": write_kinds,
        "routes.md": write_routes,
        **api_pages(MADE),
    }


def left_over() -> list[Path]:
    """Pages that nothing writes any more."""
    return [path for path in FOLDER.rglob("*.md") if str(path.relative_to(FOLDER)) not in all_pages()]


def main() -> int:
    """Returns 1 if --check finds a page that the code would write differently."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    FOLDER.mkdir(parents=True, exist_ok=True)
    stale = []
    for name, write in all_pages().items():
        path, text = FOLDER / name, write()
        if not path.exists() or path.read_text() != text:
            stale.append(name)
            if not check:
                path.parent.mkdir(exist_ok=True)
                path.write_text(text)
    for path in left_over():
        stale.append(f"{path.relative_to(FOLDER)} (gone)")
        if not check:
            path.unlink()
    if stale:
        print(f"{'out of date' if check else 'written'}: {', '.join(stale)}", file=sys.stderr)
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
