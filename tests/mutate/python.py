"""Edits of Python: Cosmic Ray's operators; statements dropped, and exceptions that are not caught.

It does not drop statements, and its own operator for exceptions fails for `psycopg.Error`.
Of its operators those that make likely mistakes: a comparison becomes its opposite or its neighbour,
not each of the nine others. Left alone: annotations (nothing reads them), decorators of classes, log
lines, failpoints, and numbers that are constants of a module: those are sizes and waits found by
measuring. So is what only type checkers read: overloads, what stands under TYPE_CHECKING, and total of a
TypedDict. And `*` alone in a signature: Cosmic Ray takes it for an operator.
"""

import ast
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from mutate.mutant import Mutant, replaced

OPERATORS = (
    *(
        f"core/ReplaceComparisonOperator_{pair}"
        for pair in (
            "Eq_NotEq", "NotEq_Eq", "Lt_LtE", "LtE_Lt", "Gt_GtE", "GtE_Gt", "Lt_GtE", "Gt_LtE",
            "Is_IsNot", "IsNot_Is",
        )
    ),
    *(
        f"core/ReplaceBinaryOperator_{pair}"
        for pair in ("Add_Sub", "Sub_Add", "Mul_Div", "Div_Mul", "FloorDiv_Mul", "Mod_Mul")
    ),
    "core/ReplaceUnaryOperator_Delete_Not",
    "core/AddNot",
    "core/ReplaceTrueWithFalse",
    "core/ReplaceFalseWithTrue",
    "core/ReplaceAndWithOr",
    "core/ReplaceOrWithAnd",
    "core/ReplaceBreakWithContinue",
    "core/ReplaceContinueWithBreak",
    "core/NumberReplacer",
    "core/ZeroIterationForLoop",
)  # fmt: skip
_NOISE = {"hit", "log", "logging", "warnings"}

_Span = tuple[tuple[int, int], tuple[int, int]]


def mutants(path: str, text: str, operators: Sequence[str] = OPERATORS) -> Iterator[Mutant]:
    """Find all edits of a module, in the order of its lines."""
    tree = ast.parse(text)
    left_alone = list(_left_alone(tree))
    made = [*_by_cosmic_ray(text, operators), *_dropped(tree, text), *_uncaught(tree, text)]
    for how, begin, make in sorted(made, key=lambda each: (each[1], each[0])):
        if any(first <= begin < last for first, last in left_alone):
            continue
        yield Mutant(
            path=path,
            how=how,
            within=_within(tree, begin[0]),
            line=begin[0],
            original=text,
            make=make,
        )


def _by_cosmic_ray(
    text: str, operators: Sequence[str]
) -> Iterator[tuple[str, tuple[int, int], Any]]:
    if not operators:
        return
    # Only here: bin/test does without it.
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    nodes = list(ast_nodes(get_ast(text)))
    for name in operators:
        operator = get_operator(name)()
        positions = (span for node in nodes for span in operator.mutation_positions(node))
        for nth, (begin, end) in enumerate(positions):
            if _is_star_alone(text, begin, end):
                continue
            yield name.removeprefix("core/"), begin, partial(mutate_code, text, operator, nth)


def _is_star_alone(text: str, begin: tuple[int, int], end: tuple[int, int]) -> bool:
    """Tell whether it is the `*` before arguments that have names: it has a comma behind it."""
    line = text.splitlines()[begin[0] - 1]
    return line[begin[1] : end[1]] == "*" and line[end[1] :].lstrip().startswith(",")


def _dropped(tree: ast.Module, text: str) -> Iterator[tuple[str, tuple[int, int], Any]]:
    """Drop calls whose result nobody takes, assignments to attributes, and raise."""
    begins = _line_begins(text)
    for node in ast.walk(tree):
        if not (_is_call(node) or _sets_attribute(node) or isinstance(node, ast.Raise)):
            continue
        begin = begins[node.lineno - 1] + node.col_offset
        end = begins[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        place = (node.lineno, node.col_offset)
        yield "drop statement", place, partial(replaced, text, begin, end, "pass")


def _uncaught(tree: ast.Module, text: str) -> Iterator[tuple[str, tuple[int, int], Any]]:
    """Let each exception that is caught be another one, which nothing raises."""
    begins = _line_begins(text)
    for node in ast.walk(tree):
        if not isinstance(node, ast.ExceptHandler) or node.type is None:
            continue
        for kind in node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]:
            begin = begins[kind.lineno - 1] + kind.col_offset
            end = begins[(kind.end_lineno or 0) - 1] + (kind.end_col_offset or 0)
            place = (kind.lineno, kind.col_offset)
            yield "not caught", place, partial(replaced, text, begin, end, "FloatingPointError")


def _is_call(node: ast.AST) -> bool:
    is_call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    return is_call and not _is_noise(node.value)


def _is_noise(node: ast.AST) -> bool:
    """Tell whether it is a call of log.info(), say, or of hit()."""
    root: ast.AST = node.func if isinstance(node, ast.Call) else node
    while isinstance(root, ast.Attribute):
        root = root.value
    return isinstance(node, ast.Call) and isinstance(root, ast.Name) and root.id in _NOISE


def _sets_attribute(node: ast.AST) -> bool:
    return isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute)


def _left_alone(tree: ast.Module) -> Iterator[_Span]:
    for node in ast.walk(tree):
        yield from _for_type_checkers(node)
        if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
            yield _span(node.annotation)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns is not None:
            yield _span(node.returns)
        elif isinstance(node, ast.ClassDef):
            yield from map(_span, node.decorator_list)
        elif isinstance(node, ast.Call) and _is_noise(node):
            yield _span(node)
    yield from (_span(each) for each in tree.body if isinstance(each, ast.Assign | ast.AnnAssign))


def _for_type_checkers(node: ast.AST) -> Iterator[_Span]:
    if isinstance(node, ast.FunctionDef) and _is_named(node.decorator_list, "overload"):
        yield _span(node)
    elif isinstance(node, ast.ClassDef) and _is_named(node.bases, "TypedDict"):
        yield from (_span(each.value) for each in node.keywords)
    elif isinstance(node, ast.If) and _is_named([node.test], "TYPE_CHECKING"):
        yield from map(_span, node.body)


def _is_named(nodes: Sequence[ast.expr], name: str) -> bool:
    return any(isinstance(node, ast.Name) and node.id == name for node in nodes)


def _span(node: ast.expr | ast.stmt) -> _Span:
    return (node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0)


def _within(tree: ast.Module, line: int) -> str:
    """Return the dotted name of the innermost function or class around a line."""
    names: list[str] = []
    body: list[ast.stmt] = tree.body
    while True:
        around = next((n for n in body if n.lineno <= line <= (n.end_lineno or 0)), None)
        if around is None:
            return ".".join(names)
        if isinstance(around, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.append(around.name)
        body = [child for child in ast.iter_child_nodes(around) if isinstance(child, ast.stmt)]


def _line_begins(text: str) -> list[int]:
    begins = [0]
    for line in text.splitlines(keepends=True):
        begins.append(begins[-1] + len(line))
    return begins
