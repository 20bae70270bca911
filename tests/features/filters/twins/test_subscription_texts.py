"""What the text of a SQL condition may be, before anything parses it: each refusal beside what is just allowed."""

import pytest

from support.twins import Twins

CHECK = "select gapless.check_condition_text(%s)"
OUTSIDE = "has a character that it may not have outside of a text in single quotes: "
NO_END = "has a text that does not end"
SPACE = "has a text without a space before it: "
OPENS = "opens a parenthesis that it does not close"
CLOSES = "closes a parenthesis that it does not open"
NOTHING_OF = "uses nothing but what PostgreSQL comes with, and has nothing of schema "
NO_TYPE = "has no type of schema "
NO_TYPE_OR_FUNCTION = "has no type or function of schema "
FIELDS = "has fields of e and s, and not "
POO = "\N{PILE OF POO}"

TAKEN = [
    "a", " a\t\n\r", "a" * 10_000, "a" * 9_993 + " = 'b' ", "'" + "\u00e4" * 9_998 + "'", "''", "a = 'it''s; --$'",
    "' /* $ \"'", "a - -1", "a <-> b", "(a)", "((a)(b))", "a[1]", "1 'b'", "a 'b'", "= 'b'", "('b')", "a=''",
    "1 > .5", "1. > 0.5e7", "a ? b", "a @> b", "a, b", "a : b", "a 'b''c' 'd''e''f'", "'e'.x", "(e).key", "s.name",
    "E . KEY", "e.key = S.name", "pg_catalog.lower(e.key)", "PG_CATALOG.x('a')", "e.key::pg_catalog.text 'a'",
    "'a'::e is null", "cast(e as s)", "e in (1)", "e in ((1))", "s in ('a')", "e = any (null)", "returning e",
    "x operator(pg_catalog.=) y",
]  # fmt: skip
# What is refused, and as what.
REFUSED = {
    "": "is empty",
    " \t\n\r": "is empty",
    "a" * 10_001: "has at most 10000 characters, not 10001",
    POO * 10_000: OUTSIDE + POO,
    "$ a": f"{OUTSIDE}$",
    "a $": f"{OUTSIDE}$",
    "abc def $ ghi": f"{OUTSIDE}$",
    "(abc) ) $": CLOSES,
    "(abc) $ )": f"{OUTSIDE}$",
    "(abc $ def": f"{OUTSIDE}$",
    "abc $ ) def ghi": f"{OUTSIDE}$",
    "a -- $": "has no comments",
    "a $ --": f"{OUTSIDE}$",
    "ab cd ef gh -- $": "has no comments",
    "ab cd ef gh $ --": f"{OUTSIDE}$",
    "ab $ cd -- ef gh": f"{OUTSIDE}$",
    "ab -- cd ef $ gh": "has no comments",
    "a;": 'is one expression, without ";"',
    "a = 'b": NO_END,
    "a = 'b'' ": NO_END,
    '"a"': f'{OUTSIDE}"',
    "a = \u00e4": f"{OUTSIDE}\u00e4",
    "a --b": "has no comments",
    "a /* b": "has no comments",
    "a ->-- b": "has no comments",
    "e'b'": f"{SPACE}e'b'",
    "a = _'b'": f"{SPACE}_'b'",
    "b1'b'": f"{SPACE}b1'b'",
    "1'b'": f"{SPACE}1'b'",
    "1a'b'": f"{SPACE}1a'b'",
    "U&'b'": f"{SPACE}&'b'",
    "x" * 50 + "'b'": SPACE + "x" * 40,
    ")": CLOSES,
    "]": CLOSES,
    "(a))(": CLOSES,
    "(": OPENS,
    "a[": OPENS,
    "((a)": OPENS,
    "public.a": f"{NOTHING_OF}public",
    "a = e1.b": f"{NOTHING_OF}e1",
    "_ . b": f"{NOTHING_OF}_",
    "x" * 70 + ".a": NOTHING_OF + "x" * 63,
    "pg_temp.a": f"{NOTHING_OF}pg_temp",
    "e.a.b": f"{NOTHING_OF}a",
    "'a'::e.b": f"{NO_TYPE}e",
    "'a' : S . b": f"{NO_TYPE}S",
    "cast(a as e.b)": f"{NO_TYPE}e",
    "cast(a AS s.b)": f"{NO_TYPE}s",
    "x(a returning e.b)": f"{NO_TYPE}e",
    "a is of e.b": f"{NO_TYPE}e",
    "a operator e.b": f"{NO_TYPE}e",
    "e.*": f"{FIELDS}e.*",
    "s.1": f"{FIELDS}s.1",
    "E . (": f"{FIELDS}E.(",
    "s.'a'": f"{FIELDS}s.'a'",
    "e.b(1)": f"{NO_TYPE_OR_FUNCTION}e",
    "S . b 'c'": f"{NO_TYPE_OR_FUNCTION}S",
    "e.b ('c')": f"{NO_TYPE_OR_FUNCTION}e",
}


@pytest.fixture(autouse=True)
def limit(twins: Twins) -> None:
    """What looks for a character forever is ended."""
    twins.conn.execute("set local statement_timeout = '5s'")


@pytest.mark.parametrize("text", TAKEN, ids=lambda text: text[:20])
def test_a_text_that_may_stand_in_parentheses(twins: Twins, text: str) -> None:
    """Whether it is an expression, the parser says."""
    twins.conn.execute(CHECK, [text])


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: text[:20])
def test_a_text_that_may_not(twins: Twins, text: str) -> None:
    assert twins.refused(CHECK, [text]) == ("GL400", REFUSED[text])


def test_no_word_is_a_type_of_the_session(twins: Twins) -> None:
    """Nor its first 63 characters, as the parser reads it; types of others are in nobody's way."""
    long = "l" * 63
    twins.conn.execute(f"create temp table mine (a int); create temp table {long} (a int)")
    twins.conn.execute("create table public.yours (a int)")
    for text in ("e.key = 'mine'", "mines", "e.yours::text", "l" * 62, "'{1}'::int[] is null"):
        twins.conn.execute(CHECK, [text])
    for text, word in (("a mine", "mine"), ("'(1)'::MINE", "mine"), (f"mine {long}xyz", long)):
        said = f"has a word, {word}, that is a temporary type or table of this session"
        assert twins.refused(CHECK, [text]) == ("GL400", said)


# What stands in a text, and what is compiled first in its stead.
TIMES = {
    "a = 'now'": "a = 'nxx'",
    "now() = 'b'": "now() = 'b'",
    "a = 'now' and now and b = 'Today'": "a = 'nxx' and now and b = 'Txx'",
    "a = 'it''s now' or today": "a = 'it''s nxx' or today",
    "a = 'yesterday, tomorrow, now'": "a = 'yxx, txx, nxx'",
    "'TOMORROW'": "'Txx'",
    "'known'": "'knxxn'",
    "today 'to day' now": "today 'to day' now",
}


@pytest.mark.parametrize("text", TIMES)
def test_a_text_without_words_for_times(twins: Twins, text: str) -> None:
    """Only what is in single quotes is read as a time."""
    assert twins.value("select gapless.without_times(%s)", text) == TIMES[text]


NAME = "the name of a subscription has 1 to 200 characters, not {}"
PARAMS = 'the params of subscription "a" are a JSON object of at most 10000 characters, not {}'
MATCH = 'subscription "a" matches by a JSON object of at most 2000 characters, {{"param": "$.field"}}, not by {}'
NOTHING = (
    'subscription "a" matches by values, {"param": "$.field"}, a condition, or both, not by nothing'
)
PART = 'subscription "a" cannot match by {}: say "$.field", "$.field.field", "event_type", "key", "host_id" or "user_id"'
TWICE = (
    'the condition of subscription "a" has ** more than once, which may take forever: once at most'
)
ASK = "select gapless.check_subscription(%s, %s, %s, %s, %s)::text"
X_9992 = '{"p": "' + "x" * 9_991 + '"}'
DEEP = "$" + ".a" * 20


def wide(size: int) -> str:
    """A match of so many characters."""
    text = '{"p": "key", "q": "$.' + "x" * (size - 23) + '"}'
    assert len(text) == size
    return text


# name, match, params, condition, whether there is an SQL condition; what is refused of it.
SAID: list[tuple[str | None, str | None, str | None, str | None, bool, str | None]] = [
    ("a", '{"p": "key"}', '{"p": 1}', None, False, None),
    ("a" * 200, '{"p": "key"}', '{"p": 1}', None, False, None),
    ("a", "{}", "{}", "$.a > 1", False, None),
    ("a", "{}", "{}", None, True, None),
    ("a", '{"p": "key"}', '{"p": 1}', "$.a > $p", True, None),
    ("a", wide(2_000), '{"p": 1, "q": 2}', None, False, None),
    ("a", '{"p": "key"}', X_9992, None, False, None),
    ("a", f'{{"p": "{DEEP}", "q": "event_type", "r": "host_id", "s": "user_id", "t": "$._a1.B_2"}}',
     '{"p": 1, "q": null, "r": 2, "s": 3, "t": 4}', None, False, None),
    ("", '{"p": "key"}', '{"p": 1}', None, False, NAME.format(0)),
    (None, '{"p": "key"}', '{"p": 1}', None, False, NAME.format(0)),
    ("a" * 201, '{"p": "key"}', '{"p": 1}', None, False, NAME.format(201)),
    ("a", '{"p": "key"}', None, None, False, PARAMS.format("null")),
    ("a", "{}", "[]", None, True, PARAMS.format("[]")),
    ("a", '{"p": "key"}', X_9992.replace("x", "xx", 1), None, False, PARAMS.format('{"p": "' + "x" * 93)),
    ("a", None, "{}", None, True, MATCH.format("null")),
    ("a", "[]", "{}", None, True, MATCH.format("[]")),
    ("a", wide(2_001), '{"p": 1, "q": 2}', None, False, MATCH.format(wide(2_001)[:100])),
    ("a", "{}", '{"p": 1}', None, False, NOTHING),
    ("a", '{"p": null}', '{"p": 1}', None, False, PART.format("p: null")),
    ("a", '{"p": "keys"}', '{"p": 1}', None, False, PART.format("p: keys")),
    ("a", '{"p": "a key"}', '{"p": 1}', None, False, PART.format("p: a key")),
    ("a", '{"p": "key", "q": "$"}', '{"p": 1, "q": 2}', None, False, PART.format("q: $")),
    ("a", f'{{"p": "{DEEP}.a"}}', '{"p": 1}', None, False, PART.format(f"p: {DEEP}.a")),
    ("a", '{"p": "$.1"}', '{"p": 1}', None, True, PART.format("p: $.1")),
    ("a", '{"p": "key", "r": "key", "q": "key"}', '{"p": 1}', None, False,
     'subscription "a" has no value for q, r: give it in params'),
    ("a", "{}", "{}", "$.**.a == $.**.b", False, TWICE),
    ("a", "{}", "{}", "$.a > $b", True,
     'the condition of subscription "a" has no value for $b: give it in params'),
]  # fmt: skip


@pytest.mark.parametrize("said", SAID, ids=lambda said: str(said[5] or said[1])[:40])
def test_what_a_subscription_may_say(
    twins: Twins, said: tuple[str | None, str | None, str | None, str | None, bool, str | None]
) -> None:
    *given, refusal = said
    if refusal is None:
        path = None if given[3] is None else twins.value("select %s::jsonpath::text", given[3])
        assert twins.value(ASK, *given) == path
        return
    assert twins.refused(ASK, given) == ("GL400", refusal)


REASONS = {
    "division by zero": "division by zero",
    'invalid input syntax for type numeric: "4111"': "invalid input syntax for type numeric",
    'value "4111" is out of range for type integer': "value .. is out of range for type integer",
    'a "b" of "c" d': "a .. d",
    "requested character too large for encoding: 411": "requested character too large for encoding",
    "a (b, - 4": "a (b",
    "4111": "an error",
    "a b 4": "a b",
    "x" * 250: "x" * 200,
}


@pytest.mark.parametrize("message", REASONS, ids=lambda text: text[:30])
def test_a_reason_tells_of_no_value(twins: Twins, message: str) -> None:
    said = twins.value("select gapless.stop_reason(%s, '22P02')", message)
    assert said == f"{REASONS[message]} (SQLSTATE 22P02)"
