"""The `keys` command: the keys of a gateway, and their scopes."""

from __future__ import annotations

from gapless.cli.declare import Args, Command, Conn, limit, opt
from gapless.cli.parser import age_s, number
from gapless.cli.screen import answer, listed, remark
from gapless.features.gateway.keys import (
    KEYS_LISTED,
    KEYS_LISTED_MAX,
    create_key,
    list_keys,
    revoke_key,
)
from gapless.ops.text import stamp

EXAMPLES = """\
A key is shown once, when it is made: the database has a digest of it.

examples:
  gapless keys create shop --scope publish:orders --scope 'read:orders.*'
  gapless keys create worker --scope consume:letters --rate 50 --expires 90d
  gapless keys
  gapless keys revoke 3f1c9e0d5a7b2468
"""
command = Command("keys")


@command.verb(
    "list keys, the newest first (also without a verb)",
    opt("--before ID", "older than the key of this id: the next page"),
    limit(KEYS_LISTED, "keys, at most", KEYS_LISTED_MAX),
)
def _list(conn: Conn, args: Args) -> int:
    hint = "no older key" if args.before else "no keys: gapless keys create makes one"
    return listed(args, list_keys(conn, **args.given), hint)


@command.verb(
    "make a key, and show it once",
    opt("name", "for people: its owner"),
    opt(
        "--scope",
        "publish:TOPIC, read:TOPIC, consume:GROUP, with * at its end for any; operate",
        dest="scopes",
        action="append",
        required=True,
    ),
    opt(
        "--rate N", "requests a second, at most (default: any number)", number(0), dest="requests_s"
    ),
    opt("--expires AGE", "12h, 90d (default: it never does)", age_s, dest="expires_in_s"),
)
def _create(conn: Conn, args: Args) -> int:
    made = create_key(conn, **args.given)
    answer(args, made.key, made)
    until = "" if made.expires is None else f", until {stamp(made.expires)}"
    if not args.json:
        remark(f"keep it, it is shown once; its id is {made.key_id}{until}")
    return 0


@command.verb(
    "let a key count no more, within 5 s everywhere",
    opt("key_id", "the part between gk_ and the next _"),
)
def _revoke(conn: Conn, args: Args) -> int:
    changed = revoke_key(conn, args.key_id)
    text = f"revoked {args.key_id}" if changed else f"nothing to do: {args.key_id} is revoked"
    return answer(args, text, key_id=args.key_id, revoked=changed)
