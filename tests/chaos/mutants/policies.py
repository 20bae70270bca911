"""The mutants of the failure policies."""

from __future__ import annotations

from chaos.mutants.mutant import Edit, Mutant
from chaos.mutants.policy_plays import killer, policies, redriven_in_hand, troubled_retry

POLICIES = (
    Mutant(
        name="park-key that parks nobody",
        play=policies,
        caught_as=frozenset({"held key passed"}),
        edits=(
            Edit(
                file="unit_keys",
                old="gapless.is_behind(_group_id, _topic_id, _partition_id, t.unit, t.digest)",
                new="false",
            ),
        ),
    ),
    Mutant(
        name="park-key that lets nobody follow",
        play=policies,
        caught_as=frozenset({"parked behind nobody"}),
        edits=(
            Edit(
                file="close_letter",
                old="  perform gapless.release_keys(_group_id, _topic_id, _partition_id, _first_offset);",
            ),
        ),
    ),
    Mutant(
        name="a retry without its delay",
        play=policies,
        caught_as=frozenset({"retried too early"}),
        edits=(
            Edit(
                file="set_aside",
                old="then now_ts + coalesce(_retry_after, '0 s') end",
                new="then now_ts end",
            ),
        ),
    ),
    Mutant(
        name="a retry before it is due",
        play=policies,
        caught_as=frozenset({"tried too early"}),
        edits=(
            Edit(file="letters_due", old=" and d.next_attempt_ts <= now_ts"),
            Edit(file="record_try", old=" and d.next_attempt_ts <= clock_timestamp()"),
            Edit(file="claim_letter", old=" and w.next_attempt_ts <= clock_timestamp()"),
        ),
    ),
    Mutant(
        name="a failed attempt counted twice",
        play=policies,
        caught_as=frozenset({"not given up", "given up too early", "retried too early"}),
        edits=(
            Edit(
                file="letter_failed",
                old="attempts = d.attempts + _counted::int",
                new="attempts = d.attempts + 2 * _counted::int",
            ),
        ),
    ),
    Mutant(
        name="a redrive without its lock",
        play=redriven_in_hand,
        caught_as=frozenset({"handled twice", "state out of turn"}),
        edits=(Edit(file="lock_letter", old="  for update skip locked"),),
    ),
    Mutant(
        name="trouble counted as the death of a worker",
        play=troubled_retry,
        caught_as=frozenset({"trouble counted"}),
        edits=(
            Edit(
                file="forget_try",
                old="set crashes = d.crashes - 1",
                new="set crashes = d.crashes",
            ),
        ),
    ),
    Mutant(
        name="a unit handled alone whose attempt is not recorded",
        play=killer,
        caught_as=frozenset({"not delivered"}),
        edits=(
            Edit(
                file="record_attempt",
                old="case when c.attempt_offset = c.next_offset then c.attempts + 1 else 1 end",
                new="1",
            ),
        ),
    ),
)
