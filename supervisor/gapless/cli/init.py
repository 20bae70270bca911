"""The `init` command: install or upgrade the schema, make chunks and the requested topic."""

from __future__ import annotations

from psycopg.errors import InsufficientPrivilege

from gapless.cli.context import load_all, needs_owner, open_connection
from gapless.cli.declare import Args, Command, flag, partitions
from gapless.cli.progress import Steps, is_quiet
from gapless.cli.screen import answer, remark, say, told
from gapless.db.migrate import script
from gapless.errors import UsageError
from gapless.ops.configured import install_as_configured
from gapless.ops.upgrade import plan_upgrade

EXAMPLES = """\
It makes the topic of the configuration (topic, by default outbox) if the configuration file, a
values file or the environment says topic or totalPartitions, as light-portal's
db-event-consumer.yml does, or with --partitions. Else it makes none: gapless topics create NAME.

examples:
  gapless init
  gapless init --config db-event-consumer.yml
  gapless init --partitions 16
  gapless init --schema audit          another one, apart from the first, in the same database
  gapless init --plan                  what an upgrade would do: locks, rows, time
  gapless init --sql | psql
"""
_TOPIC = "make the topic of the configuration (outbox), with so many"
command = Command("init")


@command.main(
    partitions(_TOPIC, dest="total_partitions"),
    flag("--sql", "print the SQL that would run, and run nothing"),
    flag("--plan", "say what it would do (locks, rows, time), and do nothing"),
    connects=False,
)
def _init(args: Args) -> int:
    """Bring the database up to this program, and print what was done."""
    loaded = load_all(args, "total_partitions")
    try:
        with open_connection(loaded.settings, "init", needs_schema=False) as conn:
            conn.add_notice_handler(lambda notice: remark(f"warning: {notice.message_primary}"))
            if args.sql:
                say(script(conn).rstrip() or "-- nothing to do: the gapless schema is up to date")
                return 0
            if args.plan:
                return told(args, plan_upgrade(conn))
            with Steps("init", None, "file", is_quiet=is_quiet(args)) as steps:
                done = install_as_configured(conn, loaded, tell=steps.show_of)
    except InsufficientPrivilege as error:
        raise UsageError(needs_owner(error)) from error
    except KeyboardInterrupt:
        if not (args.sql or args.plan):
            remark("init interrupted: the schema changes as a whole or not at all; repeat it")
        raise
    if done.installed.chunks_made is None:
        remark("warning: no chunk was made, a session reads the default chunk; the sequencer will")
    return answer(args, str(done), done.record())
