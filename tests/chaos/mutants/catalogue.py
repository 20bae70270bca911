"""The mutants: classic mistakes of an event log, each with a short run that must show it."""

from chaos.mutants.mutant import Edit, mutant
from chaos.mutants.plays import (
    at,
    chained,
    commits_itself,
    crossed,
    deferred,
    late_fence,
    late_owner,
    load,
    overlapped,
    passing_trouble,
    robbery,
    two_at_once,
    unbalanced,
)
from chaos.mutants.policies import POLICIES

MUTANTS = (
    *POLICIES,
    mutant(
        "no fence",
        late_owner,
        {"commit by a former owner"},
        Edit("claim_at", "fence.epoch <> _epoch or fence.token is distinct from _token", "false"),
        Edit("advance_offset", "and c.epoch = _epoch and c.token = _token"),
    ),
    mutant(
        "a late fence put in over a newer one",
        late_fence,
        {"epoch fell"},
        Edit("install_fence", "and (c.epoch < _epoch or c.token = _token)"),
    ),
    mutant(
        "a lease taken from a living owner",
        robbery,
        {"taken from the living"},
        Edit("acquire", "l.owner is null or", "true or"),
    ),
    mutant(
        "position not compared when the offset moves",
        two_at_once,
        {"handled twice"},
        Edit("advance_offset", "and c.next_offset = _first_offset"),
    ),
    mutant("offset committed before the effects", at("step.claimed", "kill"), {"effect lost"}),
    mutant("effects committed before the offset", at("step.handled", "kill"), {"handled twice"}),
    mutant(
        "units ordered by their lowest id",
        crossed,
        {"out of order"},
        Edit(
            "sequence_many",
            "max(p.id) over (partition by p.xid)",
            "min(p.id) over (partition by p.xid)",
        ),
        Edit(
            "sequence_few",
            "max(q.id) over (partition by q.xid)",
            "min(q.id) over (partition by q.xid)",
        ),
    ),
    mutant(
        "events ordered by their id alone",
        crossed,
        {"torn unit"},
        Edit("sequence_many", "order by r.last_id, r.id", "order by r.id"),
        Edit("sequence_few", "partition_id, p.last_id, p.id", "partition_id, p.id"),
    ),
    mutant(
        "a sequencer that forgets the transactions in progress",
        overlapped,
        {"not sequenced", "lost"},
        *(
            Edit(
                file,
                "in_progress constant xid8[] := array(select pg_snapshot_xip(_state.snapshot));",
                "in_progress constant xid8[] := '{}';",
            )
            for file in ("sequence_few", "sequence_many")
        ),
    ),
    mutant(
        "a producer that retries without a key", at("publish.after", "lose"), {"published twice"}
    ),
    mutant("only the first event of a failed unit dead-lettered", load, {"half a unit dead"}),
    mutant("a failed unit passed without a dead letter", load, {"effect lost"}),
    mutant(
        "batch not extended to the unit's end",
        load,
        {"unit cut", "half a unit dead"},
        Edit(
            "claim_at",
            "  moved := gapless.advance_offset(",
            "  upto := least(goal, upto);\n  moved := gapless.advance_offset(",
        ),
    ),
    mutant(
        "a worker that reconnects and continues",
        at("step.committed", "terminate"),
        {"commit by a former owner", "two owners"},
    ),
    mutant(
        "a handler's COMMIT let through",
        commits_itself,
        {"effect lost"},
        Edit(
            "refuse_early_commit",
            "if new.next_offset > old.next_offset",
            "if false and new.next_offset > old.next_offset",
        ),
    ),
    mutant(
        "SET CONSTRAINTS left out",
        deferred,
        {"handled too often"},
        *(
            Edit(file, "set constraints all immediate;")
            for file in ("check_constraints", "apply_constraints")
        ),
    ),
    mutant("an error that passes counted against the unit", passing_trouble, {"healthy and dead"}),
    mutant(
        "unit boundary without cause",
        chained,
        {"chain mixed"},
        Edit("sequence_many", ", r.cause) is distinct", ") is distinct"),
        Edit("sequence_many", ", lead(r.cause) over w)", ")"),
        Edit("sequence_few", "and causes[i] is not distinct from causes[i + 1]"),
    ),
    mutant(
        "untold publishing is let through",
        chained,
        {"chain mixed", "wrong cause"},
        Edit(
            "close_chain",
            "if current_setting('gapless.chain', true) = 'untold' then",
            "if false then",
        ),
    ),
    mutant(
        "a plan that knows one member only",
        unbalanced,
        {"unbalanced"},
        Edit("sync", "_topic_id, live, grp.generation", "_topic_id, live[1:1], grp.generation"),
    ),
)
