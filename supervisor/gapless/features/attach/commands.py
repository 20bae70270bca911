"""The `attach` command: copy existing outbox tables into topics and move their consumers over."""

from __future__ import annotations

from collections.abc import Callable

from gapless.cli.context import server_dsn
from gapless.cli.declare import Args, Command, Conn, flag, opt, together
from gapless.cli.progress import Steps, is_quiet
from gapless.cli.screen import answer, changed, listed, told
from gapless.errors import RefusedError, UsageError
from gapless.features.attach.ops import (
    AttachRequest,
    attach_table,
    attachment_number,
    detach_table,
    list_attachments,
    mend_attachment,
    plan_attachment,
)
from gapless.features.attach.switch import hand_back, place_group, switch_group
from gapless.ops.text import quantity

EXAMPLES = """\
A table is named as SQL names it: public.outbox, 'public."Order Lines"'. See docs/use/attach.md.

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
command = Command("attach")
_GROUP = ("table", opt("group", "the name of the old consumer, and of the group"))
_PLACE = opt(
    "--place ID", "the id that is next for the old consumer (default: as its places say)", int
)


def _wish(args: Args) -> AttachRequest:
    places = None
    if args.places is not None or args.light_portal:
        places = {"table": args.places or _LIGHT_PORTAL_PLACES}
        places |= {k: v or "" for k, v in _parsed(args.place_columns, "--place-columns").items()}
    elif args.place_columns is not None:
        raise UsageError("--place-columns needs a table: name it with --places")
    return AttachRequest(
        table=args.table,
        topic=args.topic,
        id=args.id or (_LIGHT_PORTAL_ID if args.light_portal else None),
        map=_parsed(args.map, "--map"),
        places=places,
        despite_changes=args.despite_changes,
    )


def _parsed(text: str | None, option: str) -> dict[str, str | None]:
    """Return a=b,c=d as a dictionary; an empty b is None. Raises UsageError for other texts."""
    made: dict[str, str | None] = {}
    for part in [] if text is None else text.split(","):
        name, sign, column = part.partition("=")
        if not sign or not name.strip() or name.strip() in made:
            raise UsageError(f"{option}: {part!r} is no NAME=COLUMN, or is said twice")
        made[name.strip()] = column.strip() or None
    return made


@command.verb("list all attached tables (also without a verb)")
def _list(conn: Conn, args: Args) -> int:
    hint = "no table is attached: gapless attach add TABLE TOPIC"
    return listed(args, list_attachments(conn), hint)


_WISH = together(
    "wish",
    _wish,
    opt("table"),
    opt("topic"),
    opt("--id COLUMN", "orders the rows (default: the primary key)"),
    opt(
        "--map EVENT=COLUMN,…",
        "such as payload=body,key=customer (default: columns of the same name)",
    ),
    opt("--places TABLE", "where old consumers say how far they are"),
    opt(
        "--place-columns WHAT=COLUMN,…",
        "of that: group, next (or last), partition "
        "(default: group=group_id,next=next_offset,partition=partition_id)",
    ),
    flag("--light-portal", "as --id c_offset --places public.consumer_offsets"),
    flag("--despite-changes", "also a table whose rows were updated or deleted, or will be"),
)


@command.verb(
    "copy a table into a topic, and rows inserted later",
    _WISH,
    flag("--dry-run", "say what would be done, and do nothing"),
)
def _add(conn: Conn, args: Args) -> int:
    if args.dry_run:
        plan = plan_attachment(conn, args.wish)
        return answer(args, f"would {plan}", plan, dry_run=True)
    advice = "; the same again copies the rest"
    with Steps("attach", None, "row", advice, is_quiet=is_quiet(args)) as steps:
        total = _rows_to_copy(conn, args.wish) if steps.shows else None
        copied = attach_table(conn, args.wish, tell=lambda rows: steps.show(rows, total=total))
    return told(args, copied)


def _rows_to_copy(conn: Conn, wish: AttachRequest) -> int | None:
    """Count the rows of a table; None: it is attached, and some were copied before."""
    try:
        attachment_number(conn, wish.table)
    except RefusedError:
        return plan_attachment(conn, wish).rows
    return None


def _placed(conn: Conn, args: Args, act: Callable[..., bool], done: str) -> int:
    """Move a group to its place, perhaps with the events, and print the result."""
    is_changed = act(conn, **args.given, dsn=server_dsn(args.loaded.settings))
    nothing = f"nothing to do: group {args.group} handles the events already"
    text = f"group {args.group} {done}" if is_changed else nothing
    return answer(args, text, group=args.group, changed=is_changed)


@command.verb("make a paused group where an old consumer is", *_GROUP, _PLACE)
def _group(conn: Conn, args: Args) -> int:
    return _placed(conn, args, place_group, "is paused where the old consumer is")


@command.verb(
    "let the group handle the events from there on, and the old one none", *_GROUP, _PLACE
)
def _switch(conn: Conn, args: Args) -> int:
    done = "handles the events from now on, the old consumer none"
    return _placed(conn, args, switch_group, done)


@command.verb("let the old consumer handle the events again", *_GROUP)
def _back(conn: Conn, args: Args) -> int:
    places = hand_back(conn, args.table, args.group, dsn=server_dsn(args.loaded.settings))
    text = f"nothing to do: group {args.group} was not switched"
    if places is not None:
        ids = ", ".join(str(each) for each in sorted(set(places)))
        text = f"the old consumer of {args.group} continues with id {ids}; the group is paused"
    return answer(args, text, group=args.group, changed=places is not None, places=places)


@command.verb("make the trigger if it is missing, and copy what was missed", "table")
def _mend(conn: Conn, args: Args) -> int:
    advice = "; the same again does the rest"
    with Steps("mend", None, "row", advice, is_quiet=is_quiet(args)):
        copied = mend_attachment(conn, args.table)
    text = f"{args.table}: copied {quantity(copied, 'row')} that had been missed"
    return answer(args, text, table=args.table, copied=copied)


@command.verb("copy no more of a table; events and groups stay", "table")
def _remove(conn: Conn, args: Args) -> int:
    done = "{table} is attached no more; its events and groups stay"
    return changed(args, detach_table(conn, args.table), done, "{table} is not attached")
