"""The mutants: classic mistakes of an event log, each with a short run that must show it."""

from __future__ import annotations

from chaos.mutants.mutant import Edit, Mutant
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
    Mutant(
        name="no fence",
        play=late_owner,
        caught_as=frozenset({"commit by a former owner"}),
        edits=(
            Edit(
                file="claim_at",
                old="fence.epoch <> _epoch or fence.token is distinct from _token",
                new="false",
            ),
            Edit(
                file="advance_offset",
                old="and c.epoch = _epoch and c.token = _token",
            ),
        ),
    ),
    Mutant(
        name="a late fence put in over a newer one",
        play=late_fence,
        caught_as=frozenset({"epoch fell"}),
        edits=(
            Edit(
                file="install_fence",
                old="and (c.epoch < _epoch or c.token = _token)",
            ),
        ),
    ),
    Mutant(
        name="a lease taken from a living owner",
        play=robbery,
        caught_as=frozenset({"taken from the living"}),
        edits=(Edit(file="acquire", old="l.owner is null or", new="true or"),),
    ),
    Mutant(
        name="position not compared when the offset moves",
        play=two_at_once,
        caught_as=frozenset({"handled twice"}),
        edits=(Edit(file="advance_offset", old="and c.next_offset = _first_offset"),),
    ),
    Mutant(
        name="offset committed before the effects",
        play=at("step.claimed", "kill"),
        caught_as=frozenset({"effect lost"}),
    ),
    Mutant(
        name="effects committed before the offset",
        play=at("step.handled", "kill"),
        caught_as=frozenset({"handled twice"}),
    ),
    Mutant(
        name="units ordered by their lowest id",
        play=crossed,
        caught_as=frozenset({"out of order"}),
        edits=(
            Edit(
                file="sequence_many",
                old="max(p.id) over (partition by p.xid)",
                new="min(p.id) over (partition by p.xid)",
            ),
            Edit(
                file="sequence_few",
                old="max(q.id) over (partition by q.xid)",
                new="min(q.id) over (partition by q.xid)",
            ),
        ),
    ),
    Mutant(
        name="events ordered by their id alone",
        play=crossed,
        caught_as=frozenset({"torn unit"}),
        edits=(
            Edit(file="sequence_many", old="order by r.last_id, r.id", new="order by r.id"),
            Edit(
                file="sequence_few", old="partition_id, p.last_id, p.id", new="partition_id, p.id"
            ),
        ),
    ),
    Mutant(
        name="a sequencer that forgets the transactions in progress",
        play=overlapped,
        caught_as=frozenset({"not sequenced", "lost"}),
        edits=(
            *(
                Edit(
                    file=file,
                    old="in_progress constant xid8[] := array(select pg_snapshot_xip(_state.snapshot));",
                    new="in_progress constant xid8[] := '{}';",
                )
                for file in ("sequence_few", "sequence_many")
            ),
        ),
    ),
    Mutant(
        name="a producer that retries without a key",
        play=at("publish.after", "lose"),
        caught_as=frozenset({"published twice"}),
    ),
    Mutant(
        name="only the first event of a failed unit dead-lettered",
        play=load,
        caught_as=frozenset({"half a unit dead"}),
    ),
    Mutant(
        name="a failed unit passed without a dead letter",
        play=load,
        caught_as=frozenset({"effect lost"}),
    ),
    Mutant(
        name="batch not extended to the unit's end",
        play=load,
        caught_as=frozenset({"unit cut", "half a unit dead"}),
        edits=(
            Edit(
                file="claim_at",
                old="  moved := gapless.advance_offset(",
                new="  upto := least(goal, upto);\n  moved := gapless.advance_offset(",
            ),
        ),
    ),
    Mutant(
        name="a worker that reconnects and continues",
        play=at("step.committed", "terminate"),
        caught_as=frozenset({"commit by a former owner", "two owners"}),
    ),
    Mutant(
        name="a handler's COMMIT let through",
        play=commits_itself,
        caught_as=frozenset({"effect lost"}),
        edits=(
            Edit(
                file="refuse_early_commit",
                old="if new.next_offset > old.next_offset",
                new="if false and new.next_offset > old.next_offset",
            ),
        ),
    ),
    Mutant(
        name="SET CONSTRAINTS left out",
        play=deferred,
        caught_as=frozenset({"handled too often"}),
        edits=tuple(
            Edit(file=file, old="set constraints all immediate;")
            for file in ("check_constraints", "apply_constraints")
        ),
    ),
    Mutant(
        name="an error that passes counted against the unit",
        play=passing_trouble,
        caught_as=frozenset({"healthy and dead"}),
    ),
    Mutant(
        name="unit boundary without cause",
        play=chained,
        caught_as=frozenset({"chain mixed"}),
        edits=(
            Edit(file="sequence_many", old=", r.cause) is distinct", new=") is distinct"),
            Edit(file="sequence_many", old=", lead(r.cause) over w)", new=")"),
            Edit(
                file="sequence_few",
                old="and causes[i] is not distinct from causes[i + 1]",
                new="",
            ),
        ),
    ),
    Mutant(
        name="untold publishing is let through",
        play=chained,
        caught_as=frozenset({"chain mixed", "wrong cause"}),
        edits=(
            Edit(
                file="close_chain",
                old="if current_setting('gapless.chain', true) = 'untold' then",
                new="if false then",
            ),
        ),
    ),
    Mutant(
        name="a plan that knows one member only",
        play=unbalanced,
        caught_as=frozenset({"unbalanced"}),
        edits=(
            Edit(
                file="sync",
                old="_topic_id, live, grp.generation",
                new="_topic_id, live[1:1], grp.generation",
            ),
        ),
    ),
)
