"""The `trace` command: the consequences and causes of a transaction, as a tree."""

from __future__ import annotations

from gapless.cli.declare import Args, Command, Conn, limit, opt
from gapless.cli.place import transaction_id
from gapless.cli.screen import documented, remark, say
from gapless.features.chains.lines import chain_lines
from gapless.features.chains.ops import trace

EXAMPLES = """\
TRANSACTION_ID is the id that publish() returned and gapless tail --json shows. The tree begins
with the first event of the chain; units of the transaction that was asked for are marked.

examples:
  gapless trace 00000000-0000-8000-8000-00000001dd1c
  gapless trace 00000000-0000-8000-8000-00000001dd1c --json
"""
command = Command("trace")


@command.main(
    opt("transaction_id TRANSACTION_ID", None, transaction_id),
    limit(200, "show at most N units, and say how many are left out", 10_000),
    route="GET /v1/trace/{transaction_id} trace",
)
def _trace(conn: Conn, args: Args) -> int:
    chain = trace(conn, args.transaction_id, units_max=args.limit)
    if args.json:
        left_out = {"left_out": chain.left_out} if chain.is_cut else {}
        known = {"transaction_id": chain.transaction_id, "units": chain.records(), **left_out}
        return documented(args, known)
    for line in chain_lines(chain):
        say(line)
    if not chain.has_asked:
        asked = chain.transaction_id
        remark(f"no event of transaction {asked} is there any more; these are its results")
    if chain.has_unsequenced:
        remark("some events have no offsets yet: does a sequencer run?")
    return 0
