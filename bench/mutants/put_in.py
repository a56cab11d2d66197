"""Puts a fault into modules that are imported already.

Inside a function: the code of the function objects is exchanged, wherever they were imported to. A default of a
parameter: likewise. A constant of a module: it gets its new value, there and wherever it was imported to; what was
computed from it at import keeps the old one, so that such a mutant may survive, but is never killed by mistake.
"""

from __future__ import annotations

import ast
import sys
import types
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.mutants.mutate import Mutant


def put_in(mutant: Mutant, path: Path, functions: list[types.FunctionType]) -> bool:
    """Whether that could be done; if not, it needs a process that imports the file with the fault."""
    if mutant.function:
        return _exchange_code(mutant, path, functions)
    module = next((one for one in sys.modules.values() if getattr(one, "__file__", None) == str(path)), None)
    if module is None:
        return False
    return _put_in_body(ast.parse(mutant.source).body, mutant.line, module, functions, "")


def _put_in_body(
    body: list[ast.stmt], line: int, module: types.ModuleType, functions: list[types.FunctionType], outer: str
) -> bool:
    node = next(one for one in body if one.lineno <= line <= (one.end_lineno or 0))
    if isinstance(node, ast.ClassDef):
        return _put_in_body(node.body, line, module, functions, f"{outer}{node.name}.")
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return _set_defaults(
            node, module, [one for one in functions if one.__qualname__ == outer + node.name]
        )
    return not outer and isinstance(node, ast.Assign | ast.AnnAssign) and _set_constant(node, module)


def _exchange_code(mutant: Mutant, path: Path, functions: list[types.FunctionType]) -> bool:
    new = _codes_of(compile(mutant.source, str(path), "exec", dont_inherit=True))
    old = _codes_of(compile(path.read_text(), str(path), "exec", dont_inherit=True))
    changed = [
        (one, new[key])
        for one in functions
        if (key := _key_of(one.__code__)) in new and new[key] != old.get(key)
    ]
    if not changed or any(code.co_freevars != one.__code__.co_freevars for one, code in changed):
        return False
    for function, code in changed:
        function.__code__ = code
    return True


def _key_of(code: types.CodeType) -> tuple[str, int]:
    return code.co_qualname, code.co_firstlineno


def _codes_of(code: types.CodeType) -> dict[tuple[str, int], types.CodeType]:
    """Those whose name and line are theirs alone."""
    every = list(_nested(code))
    counts = Counter(_key_of(one) for one in every)
    return {_key_of(one): one for one in every if counts[_key_of(one)] == 1}


def _nested(code: types.CodeType) -> Iterator[types.CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield constant
            yield from _nested(constant)


def _set_constant(node: ast.Assign | ast.AnnAssign, module: types.ModuleType) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    if len(targets) != 1 or not isinstance(targets[0], ast.Name) or node.value is None:
        return False
    name = targets[0].id
    old, new = vars(module)[name], _value_of(node.value, module)
    if new is _FAILED or old == new:
        return False
    for holder in list(sys.modules.values()):
        if holder is module or (
            getattr(holder, "__dict__", {}).get(name, _FAILED) is old and _imports(holder, module, name)
        ):
            setattr(holder, name, new)
    return True


def _imports(holder: types.ModuleType, module: types.ModuleType, name: str) -> bool:
    """Two constants may have the same name and value, and nothing else in common."""
    if not getattr(holder, "__file__", None):
        return False
    return any(
        isinstance(node, ast.ImportFrom)
        and node.module == module.__name__
        and name in {one.name for one in node.names}
        for node in ast.walk(ast.parse(Path(holder.__file__ or "").read_text()))
    )


def _set_defaults(
    node: ast.FunctionDef | ast.AsyncFunctionDef,
    module: types.ModuleType,
    functions: list[types.FunctionType],
) -> bool:
    defaults = [_value_of(one, module) for one in node.args.defaults]
    named = {
        one.arg: _value_of(value, module)
        for one, value in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
        if value is not None
    }
    if not functions or any(value is _FAILED for value in [*defaults, *named.values()]):
        return False
    for function in functions:
        function.__defaults__, function.__kwdefaults__ = tuple(defaults) or None, named or None
    return True


_FAILED: Any = object()


def _value_of(node: ast.expr, module: types.ModuleType) -> Any:
    try:
        return eval(compile(ast.Expression(node), "<fault>", "eval"), dict(vars(module)))
    except Exception:
        return _FAILED
