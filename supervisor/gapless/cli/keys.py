"""The `keys` command: who may do what at a gateway."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from gapless.cli.context import open_connection, show_found
from gapless.cli.parser import Parser, add_verb
from gapless.cli.screen import answer, remark
from gapless.ops.keys import KeyInfo, create_key, list_keys, revoke_key
from gapless.ops.text import stamp, whole_seconds

EXAMPLES = """\
A key is shown once, when it is made: the database has a digest of it.

examples:
  gapless keys create shop --scope publish:orders --scope 'read:orders.*'
  gapless keys create worker --scope consume:letters --rate 50 --expires 90d
  gapless keys
  gapless keys revoke 3f1c9e0d5a7b2468
"""


def add_arguments(parser: Parser) -> None:
    """Declare the verbs."""
    verbs = parser.add_verbs("list")
    add_verb(verbs, "list", _list, "list all keys (also without a verb)")
    creating = add_verb(verbs, "create", _create, "make a key, and show it once")
    creating.add_argument("name", help="for people: whose it is")
    creating.add_argument(
        "--scope",
        dest="scopes",
        action="append",
        required=True,
        help="publish:TOPIC, read:TOPIC, consume:GROUP, with * at its end for any; operate",
    )
    creating.add_argument(
        "--rate", type=_rate, metavar="N", help="requests a second, at most (default: any number)"
    )
    creating.add_argument(
        "--expires", type=_age_s, metavar="AGE", help="12h, 90d (default: it never does)"
    )
    revoking = add_verb(verbs, "revoke", _revoke, "let a key count no more, within 5 s everywhere")
    revoking.add_argument("key_id", help="the part between gk_ and the next _")


def _list(args: argparse.Namespace) -> int:
    return show_found(args, "keys", KeyInfo, list_keys, "no keys: gapless keys create makes one")


def _create(args: argparse.Namespace) -> int:
    with open_connection(args, "keys") as conn:
        made = create_key(
            conn, args.name, args.scopes, requests_s=args.rate, expires_in_s=args.expires
        )
    what: dict[str, Any] = asdict(made)
    answer(args, made.key, **what)
    until = "" if made.expires is None else f", until {stamp(made.expires)}"
    if not args.json:
        remark(f"keep it, it is shown once; its id is {made.key_id}{until}")
    return 0


def _revoke(args: argparse.Namespace) -> int:
    with open_connection(args, "keys") as conn:
        changed = revoke_key(conn, args.key_id)
    text = f"revoked {args.key_id}" if changed else f"nothing to do: {args.key_id} is revoked"
    answer(args, text, key_id=args.key_id, revoked=changed)
    return 0


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0 < rate <= 1_000_000:
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0, at most 1000000")
    return rate


def _age_s(text: str) -> int:
    seconds = whole_seconds(text)
    if seconds is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no age such as 12h or 90d")
    return seconds
