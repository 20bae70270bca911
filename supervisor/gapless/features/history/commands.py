"""The `history` command: the past of groups and topics, as the database recorded it."""

from __future__ import annotations

from gapless.cli.declare import Args, Command, Conn, opt
from gapless.cli.parser import whole
from gapless.cli.place import argument
from gapless.cli.screen import answer, listed, remark
from gapless.errors import UsageError
from gapless.features.history.lines import course_lines
from gapless.features.history.ops import FIELDS, MINUTES_MAX, POINTS, POINTS_MAX, SINCE, history
from gapless.ops.place import read_since

EXAMPLES = """\
Supervisors record each minute (historyHours: for how long it is kept), or a gateway without one; a
time that nobody recorded is a gap. With --json: a number for each step, null where nothing was
recorded.

examples:
  gapless history
  gapless history --since 24h --topic orders
  gapless history --group billing --since 2026-03-01T00:00Z --until 2026-03-01T03:00Z
  gapless history --only database --of lag,lag_s --json
"""
_WITHOUT_GROUPS = {"database": ("", ""), "topics": ("", None)}
command = Command("history")


@command.main(
    opt("--group G", "of this group only"),
    opt("--topic T", "of this topic only, with its groups"),
    opt("--only WHAT", "database: the sums of all; topics: no groups"),
    opt(
        "--since TS|AGE",
        f"from then, or from so long ago, such as 90m (default: {SINCE})",
        argument(read_since),
    ),
    opt("--until TS|AGE", "to before then (default: now)", argument(read_since)),
    opt(
        "--points N",
        f"at most so many steps, of whole minutes (default: {POINTS})",
        whole(1, POINTS_MAX),
    ),
    opt("--page N", f"of {MINUTES_MAX:,} minutes of series at most (default: 1)", whole(1, 10**6)),
    opt("--of FIELDS", f"with --json: some of {','.join(FIELDS)}"),
    route="GET /v1/history history",
)
def _history(conn: Conn, args: Args) -> int:
    of = args.of.split(",") if args.of else FIELDS
    if unknown := [name for name in of if name not in FIELDS]:
        raise UsageError(f"of: {unknown[0]!r} is none of {', '.join(FIELDS)}")
    group, topic = args.group, args.topic
    if args.only:
        if args.only not in _WITHOUT_GROUPS or group or topic:
            raise UsageError("only: database or topics, without a group or a topic")
        group, topic = _WITHOUT_GROUPS[args.only]
    past = history(
        conn,
        group,
        topic,
        since=args.since or SINCE,
        until=args.until,
        points=args.points or POINTS,
        page=args.page or 1,
    )
    if args.json:
        return answer(args, "", past.document(of))
    if past.page < past.pages:
        remark(f"page {past.page} of {past.pages}: the next one is --page {past.page + 1}")
    return listed(args, course_lines(past), "nothing was recorded in that time", first=["trend"])
