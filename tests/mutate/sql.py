"""Edits of SQL functions: the small mistakes that a WHERE or an IF invites.

Nothing that knows the grammar: words are exchanged, conditions left out, statements dropped. What the
server refuses is no mutant (arena.py asks it).
"""

import re
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from mutate.mutant import Mutant, replaced

_TOKEN = re.compile(
    r"(?P<skip>--[^\n]*|'(?:[^']|'')*'|\s+)"
    r"|(?P<token>[a-z_][\w.]*|\d[\w.]*|<>|<=|>=|:=|=>|->>|->|\|\||::|\$\$|.)",
    re.IGNORECASE | re.DOTALL,
)
_FUNCTION = re.compile(r"create or replace function gapless\.(\w+)")
_WORDS = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "<>": "=", "=": "<>",
    "and": "or", "or": "and", "min": "max", "max": "min",
    "greatest": "least", "least": "greatest", "true": "false", "false": "true",
    "+": "-", "-": "+", "not": "", "desc": "",
}  # fmt: skip
_PHRASES = {
    ("is", "distinct", "from"): "is not distinct from",
    ("is", "null"): "is not null",
    ("is", "not", "null"): "is null",
    ("for", "update"): "",
    ("return", ";"): "null;",
    ("return", "next", ";"): "null;",
}
_BEGINS = {"where", "on", "and", "or", "having"}
_ENDS = {
    "and", "or", "then", "group", "order", "limit", "returning", "union", "for", "window", "having",
    "loop", "on", "left", "join", "cross", "else", "end", "do", "where", "offset", ";", ",", "when",
}  # fmt: skip
_NOT_CONDITIONS = {"conflict", "constraint", "commit", "update", "delete", "insert", "replace"}


class _Token(NamedTuple):
    text: str
    begin: int
    end: int
    depth: int  # of parentheses around it


def mutants(path: str, text: str) -> Iterator[Mutant]:
    """Find all edits of a file of functions, in its order."""
    functions = [(found.start(), found[1]) for found in _FUNCTION.finditer(text)]
    found = {
        (begin, end, new, how) for begin, end, new, how in _edits(text) if text[begin:end] != new
    }
    edits = sorted(found, key=lambda edit: (edit[0], edit[1], edit[2]))
    for begin, end, new, how in edits:
        before = [name for at, name in functions if at <= begin]
        yield Mutant(
            path=path,
            how=f"sql/{how}",
            within=before[-1] if before else "",
            line=text.count("\n", 0, begin) + 1,
            original=text,
            make=partial(replaced, text, begin, end, new),
        )


def _edits(text: str) -> Iterator[tuple[int, int, str, str]]:
    tokens = list(_tokens(text))
    for at, token in enumerate(tokens):
        yield from _exchanged(tokens, at)
        if token.text == "perform":
            yield token.begin, _statement_end(tokens, at), "null;", "drop statement"
        elif token.text in _BEGINS and _is_condition(tokens, at):
            end = _condition_end(tokens, at + 1)
            if end > at + 1:
                new = "false" if token.text == "or" else "true"
                yield tokens[at + 1].begin, tokens[end - 1].end, new, "drop condition"
        elif token.text in {"if", "elsif"} and (then := _find(tokens, at, "then")):
            begin, end = tokens[at + 1].begin, tokens[then - 1].end
            yield begin, end, f"not ({text[begin:end]})", "negate condition"


def _tokens(text: str) -> Iterator[_Token]:
    depth = 0
    for found in _TOKEN.finditer(text):
        if found["token"] is None:
            continue
        depth -= found["token"] == ")"
        yield _Token(found["token"].lower(), found.start(), found.end(), depth)
        depth += found["token"] == "("


def _exchanged(tokens: list[_Token], at: int) -> Iterator[tuple[int, int, str, str]]:
    token = tokens[at]
    for phrase, new in _PHRASES.items():
        words = tokens[at : at + len(phrase)]
        if tuple(word.text for word in words) == phrase:
            yield token.begin, words[-1].end, new, f"{' '.join(phrase)} to {new or 'nothing'}"
            return
    new_word = _WORDS.get(token.text)
    if new_word is None:
        return
    before = tokens[at - 1].text if at else ""
    after = tokens[at + 1].text if at + 1 < len(tokens) else ""
    if token.text == "not" and (before in {"is", "if"} or after == "null"):
        return
    if token.text == "or" and before == "create":
        return
    if token.text == "and" and _is_between(tokens, at):
        return
    yield token.begin, token.end, new_word, f"{token.text} to {new_word or 'nothing'}"


def _is_between(tokens: list[_Token], at: int) -> bool:
    """Tell whether an "and" belongs to a BETWEEN."""
    depth = tokens[at].depth
    for token in reversed(tokens[:at]):
        if token.depth < depth or (token.depth == depth and token.text in _ENDS | _BEGINS):
            return False
        if token.depth == depth and token.text == "between":
            return True
    return False


def _is_condition(tokens: list[_Token], at: int) -> bool:
    if tokens[at].text == "and" and _is_between(tokens, at):
        return False
    return at + 1 < len(tokens) and tokens[at + 1].text not in _NOT_CONDITIONS


def _condition_end(tokens: list[_Token], begin: int) -> int:
    """Return the index after the last token of the condition that begins here."""
    depth = tokens[begin].depth
    open_between = False
    for at in range(begin, len(tokens)):
        token = tokens[at]
        if token.depth < depth or (token.text == ")" and token.depth == depth and at == begin):
            return at
        if token.depth > depth:
            continue
        if token.text == "between":
            open_between = True
        elif token.text == "and" and open_between:
            open_between = False
        elif token.text in _ENDS or token.text == "$$":
            return at
    return len(tokens)


def _statement_end(tokens: list[_Token], at: int) -> int:
    return tokens[_find(tokens, at, ";") or at].end


def _find(tokens: list[_Token], at: int, word: str) -> int | None:
    depth = tokens[at].depth
    for n in range(at, len(tokens)):
        if tokens[n].text == word and tokens[n].depth == depth:
            return n
        if tokens[n].text == ";" and tokens[n].depth == depth:
            return None
    return None
