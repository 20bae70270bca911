"""The `attach` command: outboxes that exist, copied into a topic; their consumers, moved over."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import asdict

from gapless.cli.context import open_connection, server_dsn
from gapless.cli.parser import Parser, add_json
from gapless.cli.screen import answer, remark, show
from gapless.errors import UsageError
from gapless.ops.attach import (
    AttachmentInfo,
    Wish,
    attach_table,
    detach_table,
    list_attachments,
    mend_attachment,
    plan_attachment,
)
from gapless.ops.switch import hand_back, place_group, switch_group
from gapless.ops.text import quantity

EXAMPLES = """\
A table is named as SQL names it: public.outbox, 'public."Order Lines"'. See docs/attach.md.

examples:
  gapless attach add public.outbox orders --map payload=body,key=customer --dry-run
  gapless attach add public.outbox orders --map payload=body,key=customer
  gapless attach group public.outbox billing --place 4711
  gapless attach switch public.outbox billing --place 4813
  gapless attach back public.outbox billing
  gapless attach add public.outbox_message_t outbox --light-portal
"""
_LIGHT_PORTAL_ID = "c_offset"
_LIGHT_PORTAL_PLACES = "public.consumer_offsets"


def add_arguments(parser: Parser) -> None:
    """Declare the verbs."""
    verbs = parser.add_verbs("list")
    listing = verbs.add_parser("list", help="list all attached tables (also without a verb)")
    listing.set_defaults(act=_list)
    add_json(listing)
    _add_add(verbs.add_parser("add", help="copy a table into a topic, and what is inserted later"))
    for name, summary, act in (
        ("group", "make a paused group where an old consumer is", _group),
        ("switch", "let the group handle the events from there on, and the old one none", _switch),
        ("back", "let the old consumer handle the events again", _back),
    ):
        verb = verbs.add_parser(name, help=summary)
        verb.set_defaults(act=act)
        verb.add_argument("table")
        verb.add_argument("group", help="the old consumer's name, which is the group's")
        if act is not _back:
            verb.add_argument(
                "--place",
                type=int,
                metavar="ID",
                help="the id that is next for the old consumer (default: as its places say)",
            )
        add_json(verb)
    for name, summary, act in (
        ("mend", "make the trigger if it is missing, and copy what was missed", _mend),
        ("remove", "copy no more of a table; events and groups stay", _remove),
    ):
        verb = verbs.add_parser(name, help=summary)
        verb.set_defaults(act=act)
        verb.add_argument("table")
        add_json(verb)


def _add_add(adding: argparse.ArgumentParser) -> None:
    adding.set_defaults(act=_add)
    adding.add_argument("table")
    adding.add_argument("topic")
    adding.add_argument("--id", metavar="COLUMN", help="orders the rows (default: the primary key)")
    adding.add_argument(
        "--map",
        metavar="EVENT=COLUMN,…",
        help="such as payload=body,key=customer (default: columns of the same name)",
    )
    adding.add_argument(
        "--places", metavar="TABLE", help="where old consumers say how far they are"
    )
    adding.add_argument(
        "--place-columns",
        metavar="WHAT=COLUMN,…",
        help="of that: group, next (or last), partition "
        "(default: group=group_id,next=next_offset,partition=partition_id)",
    )
    adding.add_argument(
        "--light-portal",
        action="store_true",
        help="as --id c_offset --places public.consumer_offsets",
    )
    adding.add_argument(
        "--despite-changes",
        action="store_true",
        help="also a table whose rows were updated or deleted",
    )
    adding.add_argument(
        "--dry-run", action="store_true", help="say what would be done, and do nothing"
    )
    add_json(adding)


def _list(args: argparse.Namespace) -> int:
    with open_connection(args, "attach") as conn:
        found = list_attachments(conn)
    show(
        AttachmentInfo,
        found,
        as_json=args.json,
        empty="no table is attached: gapless attach add TABLE TOPIC",
    )
    return 0


def _add(args: argparse.Namespace) -> int:
    wish = _wish(args)
    with open_connection(args, "attach") as conn:
        if args.dry_run:
            plan = plan_attachment(conn, wish)
            text = (
                f"would copy {quantity(plan.rows, 'row')} of {plan.table} into {plan.topic}, ids "
                f"{plan.first_id} to {plan.last_id} by {plan.id}, {plan.missing_ids} missing; "
                f"columns: {_pairs(plan.columns)}"
            )
            answer(args, text, **asdict(plan), dry_run=True)
            return 0
        done = attach_table(conn, wish, tell=lambda rows: remark(f"{rows} rows copied"))
    text = f"{quantity(done.copied, 'row')} of {args.table} copied into {args.topic}"
    if done.late:
        text += f", {done.late} of them late"
    answer(args, f"{text}; new rows are copied as they are inserted", **asdict(done))
    return 0


def _wish(args: argparse.Namespace) -> Wish:
    places = None
    if args.places is not None or args.light_portal:
        places = {"table": args.places or _LIGHT_PORTAL_PLACES}
        places |= {k: v or "" for k, v in _parsed(args.place_columns, "--place-columns").items()}
    elif args.place_columns is not None:
        raise UsageError("--place-columns says what is in a table: name that with --places")
    return Wish(
        table=args.table,
        topic=args.topic,
        id=args.id or (_LIGHT_PORTAL_ID if args.light_portal else None),
        map=_parsed(args.map, "--map"),
        places=places,
        despite_changes=args.despite_changes,
    )


def _parsed(text: str | None, option: str) -> dict[str, str | None]:
    """Return a=b,c=d as a dictionary; an empty b is None. Raises UsageError for anything else."""
    made: dict[str, str | None] = {}
    for part in [] if text is None else text.split(","):
        name, sign, column = part.partition("=")
        if not sign or not name.strip() or name.strip() in made:
            raise UsageError(f"{option}: {part!r} is no NAME=COLUMN, or is said twice")
        made[name.strip()] = column.strip() or None
    return made


def _pairs(columns: object) -> str:
    assert isinstance(columns, dict)
    return ", ".join(f"{name}={column}" for name, column in columns.items()) or "the whole row"


def _group(args: argparse.Namespace) -> int:
    changed = _placed(args, place_group)
    text = f"group {args.group} is paused where the old consumer is"
    nothing = f"nothing to do: group {args.group} handles the events already"
    answer(args, text if changed else nothing, group=args.group, changed=changed)
    return 0


def _switch(args: argparse.Namespace) -> int:
    changed = _placed(args, switch_group)
    text = f"group {args.group} handles the events from now on, the old consumer none"
    nothing = f"nothing to do: group {args.group} handles the events already"
    answer(args, text if changed else nothing, group=args.group, changed=changed)
    return 0


def _placed(args: argparse.Namespace, act: Callable[..., bool]) -> bool:
    with open_connection(args, "attach") as conn:
        return act(conn, args.table, args.group, dsn=server_dsn(args), place=args.place)


def _back(args: argparse.Namespace) -> int:
    with open_connection(args, "attach") as conn:
        places = hand_back(conn, args.table, args.group, dsn=server_dsn(args))
    text = f"nothing to do: group {args.group} was not switched"
    if places is not None:
        text = (
            f"the old consumer of {args.group} continues with {_ids(places)}; the group is paused"
        )
    answer(args, text, group=args.group, changed=places is not None, places=places)
    return 0


def _ids(places: Sequence[int]) -> str:
    return f"id {', '.join(str(each) for each in sorted(set(places)))}"


def _mend(args: argparse.Namespace) -> int:
    with open_connection(args, "attach") as conn:
        copied = mend_attachment(conn, args.table)
    text = f"{args.table}: copied {quantity(copied, 'row')} that had been missed"
    answer(args, text, table=args.table, copied=copied)
    return 0


def _remove(args: argparse.Namespace) -> int:
    with open_connection(args, "attach") as conn:
        changed = detach_table(conn, args.table)
    nothing = f"nothing to do: {args.table} is not attached"
    text = f"{args.table} is attached no more; its events and groups stay"
    answer(args, text if changed else nothing, table=args.table, changed=changed)
    return 0
