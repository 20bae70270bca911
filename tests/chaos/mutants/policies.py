"""The mutants of the failure policies."""

from chaos.mutants.mutant import Edit, mutant
from chaos.mutants.policy_plays import killer, policies, redriven_in_hand, troubled_retry

POLICIES = (
    mutant(
        "park-key that parks nobody",
        policies,
        {"held key passed"},
        Edit(
            "unit_keys",
            "gapless.is_behind(_group_id, _topic_id, _partition_id, t.unit, t.digest)",
            "false",
        ),
    ),
    mutant(
        "park-key that lets nobody follow",
        policies,
        {"parked behind nobody"},
        Edit(
            "close_letter",
            "  perform gapless.release_keys(_group_id, _topic_id, _partition_id, _first_offset);",
        ),
    ),
    mutant(
        "a retry without its delay",
        policies,
        {"retried too early"},
        Edit("set_aside", "then now_ts + coalesce(_retry_after, '0 s') end", "then now_ts end"),
    ),
    mutant(
        "a retry before it is due",
        policies,
        {"tried too early"},
        Edit("letters_due", " and d.next_attempt_ts <= now_ts"),
        Edit("record_try", " and d.next_attempt_ts <= clock_timestamp()"),
        Edit("claim_letter", " and w.next_attempt_ts <= clock_timestamp()"),
    ),
    mutant(
        "a failed attempt counted twice",
        policies,
        {"not given up", "given up too early", "retried too early"},
        Edit(
            "letter_failed",
            "attempts = d.attempts + _counted::int",
            "attempts = d.attempts + 2 * _counted::int",
        ),
    ),
    mutant(
        "a redrive without its lock",
        redriven_in_hand,
        {"handled twice", "state out of turn"},
        Edit("lock_letter", "  for update skip locked"),
    ),
    mutant(
        "trouble counted as the death of a worker",
        troubled_retry,
        {"trouble counted"},
        Edit("forget_try", "set crashes = d.crashes - 1", "set crashes = d.crashes"),
    ),
    mutant(
        "a unit handled alone whose attempt is not recorded",
        killer,
        {"not delivered"},
        Edit(
            "record_attempt",
            "case when c.attempt_offset = c.next_offset then c.attempts + 1 else 1 end",
            "1",
        ),
    ),
)
