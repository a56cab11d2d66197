"""The mutants of a source file: which faults are put where, and what is left alone by rule.

A mutant replaces one piece of the text and keeps the number of lines, so that what coverage says of a line still holds.
Left alone are docstrings, annotations, log calls, assertions (they are for mypy), decorators, keywords of classes, text
for people (f-strings, strings with a space, the `fix` of an error), keys in brackets, and arguments of SQL queries
(without one of them, any call fails).
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
OPPOSITES = {"min": "max", "max": "min", "any": "all", "all": "any"}
LOG_METHODS = {"debug", "info", "warning", "error", "exception", "critical", "log"}
LOGS = {"log", "_log", "logger"}
# Their text is a name for tools, or a type.
NAMING_CALLS = {"cast", "getLogger", "NewType", "TypeVar", "ParamSpec", "namedtuple"}
SQL_CALL = re.compile(r"(queries|store)\..*\.(run|row|rows|value)$")
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault: `source` is the whole file with it."""

    file: str
    line: int
    lines: tuple[int, int]
    function: str  # "" outside of functions: seen only by processes that import the file with the fault
    names: tuple[str, ...]  # outside of functions: what the statement defines
    old: str
    new: str
    source: str

    @property
    def key(self) -> str:
        """The same in every commit, as long as the code in question is the same."""
        return f"{self.file} {self.function or '<module>'}: {_one_line(self.old)} -> {_one_line(self.new)}"

    def diff(self, original: str) -> str:
        """The changed lines."""
        lines = difflib.unified_diff(original.splitlines(), self.source.splitlines(), n=0, lineterm="")
        return "\n".join(line for line in lines if line[:1] in "+-" and line[:3] not in ("+++", "---"))


def _one_line(text: str) -> str:
    return " ".join(text.split())


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a node is: the function that holds it, and the names that its statement defines."""

    function: str = ""
    statement: ast.stmt | None = None
    names: tuple[str, ...] = ()


def mutants_of(path: Path, root: Path) -> list[Mutant]:
    """Every mutant of a file, in the order of its text."""
    source = path.read_text()
    starts = _line_starts(source)
    data = source.encode()
    found: list[Mutant] = []
    for place, node, text in _Walk(source).mutations():
        assert isinstance(node, ast.expr | ast.stmt)
        begin = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        old = data[begin:end].decode()
        new = _with_lines(text, old.count("\n"), is_expression=isinstance(node, ast.expr))
        mutated = (data[:begin] + new.encode() + data[end:]).decode()
        first = place.statement.lineno if place.statement else node.lineno
        found.append(
            Mutant(
                str(path.relative_to(root)),
                node.lineno,
                (min(first, node.lineno), node.end_lineno or node.lineno),
                place.function,
                place.names,
                old,
                text,
                mutated,
            )
        )
    return found


def _line_starts(source: str) -> list[int]:
    starts = [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts


def _with_lines(text: str, lines: int, *, is_expression: bool) -> str:
    missing = "\n" * (lines - text.count("\n"))
    return f"({text}{missing})" if is_expression and missing else text + missing


class _Walk:
    """Goes through a file from the top; `mutations` yields the node to replace and the new text."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.tree = ast.parse(source)

    def mutations(self) -> Iterator[tuple[_Place, ast.AST, str]]:
        """Each with the place that it is in."""
        yield from self._body(self.tree.body, _Place())

    def _body(self, body: list[ast.stmt], place: _Place) -> Iterator[tuple[_Place, ast.AST, str]]:
        for statement in body:
            if not _left_alone(statement):
                yield from self._statement(statement, place)

    def _statement(self, node: ast.stmt, place: _Place) -> Iterator[tuple[_Place, ast.AST, str]]:
        if isinstance(node, Function):
            yield from self._function(node, place)
            return
        if isinstance(node, ast.ClassDef):
            inside = _Place(
                _dotted(place.function, node.name) if place.function else "", None, (*place.names, node.name)
            )
            yield from self._body(node.body, inside)
            return
        place = _Place(
            place.function, node, place.names if place.function else (*place.names, *_defined(node))
        )
        yield from ((place, node, text) for text in _instead_of_statement(node))
        for field, value in ast.iter_fields(node):
            if field in ("annotation", "returns", "type_params"):
                continue
            yield from self._values(field, value, node, place)

    def _values(
        self, field: str, value: object, parent: ast.AST, place: _Place
    ) -> Iterator[tuple[_Place, ast.AST, str]]:
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, ast.stmt):
                yield from self._body([one], place)
            elif isinstance(one, ast.ExceptHandler):
                yield from self._handler(one, place)
            elif isinstance(one, ast.expr):
                if field == "test" and isinstance(parent, ast.If | ast.While):
                    yield from ((place, one, text) for text in _negated(one))
                yield from self._expression(one, place, parent)
            elif isinstance(one, ast.AST) and not isinstance(one, ast.cmpop | ast.operator | ast.pattern):
                for name, inner in ast.iter_fields(one):
                    if name == "ifs" and isinstance(inner, list):
                        yield from ((place, test, text) for test in inner for text in _negated(test))
                    yield from self._values(name, inner, one, place)

    def _handler(self, handler: ast.ExceptHandler, place: _Place) -> Iterator[tuple[_Place, ast.AST, str]]:
        """The error is not handled."""
        first = handler.body[0]
        if not isinstance(first, ast.Raise):
            yield _Place(place.function, first, place.names), first, "raise"
        yield from self._body(handler.body, place)

    def _function(self, node: Function, place: _Place) -> Iterator[tuple[_Place, ast.AST, str]]:
        """Defaults belong to what is outside: they are made once, when the file is imported."""
        if any(
            "overload" in ast.unparse(one) or "abstractmethod" in ast.unparse(one)
            for one in node.decorator_list
        ):
            return
        outside = _Place(place.function, None, place.names if place.function else (*place.names, node.name))
        for default in [*node.args.defaults, *node.args.kw_defaults]:
            if default is not None:
                yield from self._expression(default, outside, node.args)
        name = _dotted(place.function, node.name) if place.function else ".".join((*place.names, node.name))
        yield from self._body(node.body, _Place(name))

    def _expression(
        self, node: ast.expr, place: _Place, parent: ast.AST
    ) -> Iterator[tuple[_Place, ast.AST, str]]:
        if isinstance(node, ast.JoinedStr):
            return
        if isinstance(node, ast.Call) and _call_name(node) in NAMING_CALLS:
            for value in [*node.args[1:]]:
                yield from self._expression(value, place, node)
            return
        yield from ((place, node, text) for text in _instead_of_expression(node, parent))
        for field, value in ast.iter_fields(node):
            if field == "keywords" and isinstance(node, ast.Call) and _call_name(node) == "zip":
                continue  # strict: an assertion
            if field == "test" and isinstance(node, ast.IfExp):
                yield from ((place, node.test, text) for text in _negated(node.test))
            yield from self._values(field, value, node, place)


def _dotted(outer: str, name: str) -> str:
    return f"{outer}.{name}"


def _call_name(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _defined(node: ast.stmt) -> tuple[str, ...]:
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return tuple(
        one.id for target in targets if target for one in ast.walk(target) if isinstance(one, ast.Name)
    )


def _left_alone(node: ast.stmt) -> bool:
    """By rule: no behaviour that tests could ask for."""
    if isinstance(node, ast.Assert | ast.Import | ast.ImportFrom | ast.Pass | ast.Global | ast.Nonlocal):
        return True
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant) or _is_log_call(node.value)
    if isinstance(node, ast.If):
        return "TYPE_CHECKING" in ast.unparse(node.test)
    if isinstance(node, ast.Raise):
        return "NotImplementedError" in ast.unparse(node)
    return isinstance(node, ast.Assign) and bool({"__all__", "__slots__"} & set(_defined(node)))


def _is_log_call(node: ast.expr) -> bool:
    if not isinstance(node, ast.Call):
        return False
    if not isinstance(node.func, ast.Attribute):  # tell(log, "event", ...)
        return bool(node.args) and getattr(node.args[0], "id", "") in LOGS
    holder = node.func.value
    name = holder.attr if isinstance(holder, ast.Attribute) else getattr(holder, "id", "")
    return node.func.attr in LOG_METHODS and name in LOGS


def _instead_of_statement(node: ast.stmt) -> Iterator[str]:
    """A step that is forgotten, and ways out of a loop that are mixed up."""
    if isinstance(node, ast.Break):
        yield "continue"
    elif isinstance(node, ast.Continue):
        yield "break"
    elif isinstance(node, ast.Return):
        if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
            yield "return None"
    elif isinstance(node, ast.Expr):
        if isinstance(node.value, ast.Call | ast.Await):
            yield "pass"
    elif isinstance(node, ast.Raise | ast.AugAssign | ast.Delete) or (
        isinstance(node, ast.Assign)
        and not any(isinstance(target, ast.Name | ast.Tuple) for target in node.targets)
    ):
        yield "pass"


def _negated(node: ast.expr) -> Iterator[str]:
    """Only of what has no operator of its own to turn."""
    if not isinstance(node, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.Constant):
        yield f"(not ({ast.unparse(node)}))"


def _instead_of_expression(node: ast.expr, parent: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Constant):
        yield from _instead_of_constant(node, parent)
    elif isinstance(node, ast.Compare):
        for place, operator in enumerate(node.ops):
            operators = [*node.ops[:place], COMPARISONS[type(operator)](), *node.ops[place + 1 :]]
            yield f"({ast.unparse(ast.Compare(node.left, operators, node.comparators))})"
    elif isinstance(node, ast.BoolOp):
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield f"({ast.unparse(ast.BoolOp(other, node.values))})"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield f"({ast.unparse(node.operand)})"
    elif isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        yield f"({ast.unparse(ast.BinOp(node.left, ARITHMETIC[type(node.op)](), node.right))})"
    elif isinstance(node, ast.Name) and isinstance(parent, ast.Call) and node is parent.func:
        if node.id in OPPOSITES:
            yield OPPOSITES[node.id]
    elif isinstance(node, ast.Call) and not SQL_CALL.match(ast.unparse(node.func)):
        for keyword in node.keywords:
            if keyword.arg not in (None, "fix") and _call_name(node) != "zip":
                rest = [one for one in node.keywords if one is not keyword]
                yield ast.unparse(ast.Call(node.func, node.args, rest))


def _instead_of_constant(node: ast.Constant, parent: ast.AST) -> Iterator[str]:
    value = node.value
    if isinstance(value, bool):
        yield repr(not value)
    elif isinstance(value, int | float):
        yield repr(value + 1)
    elif isinstance(value, str | bytes) and not isinstance(parent, ast.Subscript) and len(value.split()) < 2:
        yield repr("XX" + value if isinstance(value, str) else b"XX" + value)
