"""Which tests a mutant is tried against: those that are about its file, and its neighbours.

The first pattern that fits counts. Paths below tests/; those that ended earlier mutants of the same
file run first, then those that name what is mutated, then the quick ones. Files of tests that name
the module or the function of SQL come with them, unless they are many.
"""

from __future__ import annotations

import re
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

from mutate.mutant import ROOT

NAMING_MAX = 12  # files of tests; what more of them name says nothing about them

_SET = "stage/control/test_settings_alone.py"
_PLACES = f"stage/control/test_bystanders.py stage/twins {_SET}"
_LETTERS = (
    f"{_PLACES} unit/test_policy.py stage/consume/test_dead_letters.py stage/consume/test_letter_sql.py"
    " stage/consume/test_deaths.py stage/consume/test_policies.py"
    " stage/consume/test_letters_and_barriers.py stage/partitions/test_letters.py"
    " stage/worker/test_redrive.py"
)
_STEP = (
    "unit/test_unit.py unit/test_steps.py stage/consume/test_claim.py stage/consume/test_fence.py"
    " stage/consume/test_deaths.py stage/consume/test_prefetch.py stage/consume/test_go_on.py"
    " stage/consume/test_transient.py stage/consume/test_dead_letters.py"
    " stage/consume/test_deferred.py stage/consume/test_rest.py stage/consume/test_cut_off.py"
)
_STEP_TOO = (
    "stage/consume/test_group_by.py stage/consume/test_misbehaving.py"
    " stage/consume/test_large_and_lethal.py stage/consume/test_chain.py"
    " stage/consume/test_ledger.py"
)
_DELIVER = (
    "unit/test_window.py unit/test_lookahead.py unit/test_deliveries.py"
    " stage/consume/test_deliver.py stage/consume/test_deaths.py"
    " stage/worker/test_shared_worker.py"
)
_LEASE = f"{_PLACES} stage/lease stage/worker/test_share.py stage/worker/test_leave.py"
_WORKER = (
    "unit/test_reconcile.py stage/worker/test_start.py stage/worker/test_share.py"
    " stage/worker/test_leave.py stage/worker/test_restart.py stage/worker/test_failures.py"
    " stage/worker/test_kill.py stage/worker/test_control.py stage/worker/test_sequencer.py"
    " stage/worker/test_pause.py stage/worker/test_poison.py stage/worker/test_hole.py"
    " stage/worker/test_sessions.py stage/worker/test_hygiene.py stage/worker/test_partitions.py"
    " stage/worker/test_shared_worker.py stage/worker/test_redrive.py stage/worker/test_wakeups.py"
    " stage/worker/test_failure_storm.py stage/worker/test_retention.py"
    " stage/worker/test_astray.py stage/worker/test_many.py"
)
_PUBLISH = (
    "unit/test_publish_json.py stage/log/test_publish.py stage/log/test_publish_refused.py"
    " stage/log/test_publish_sql.py stage/log/test_keys.py stage/log/test_hosts.py"
    " stage/log/test_dedupe.py stage/consume/test_chain.py"
)
_ROWS = "stage/log/test_rows_publish.py stage/log/test_publish_hosts.py"
_SEQUENCE = (
    "stage/log/test_sequence_rows.py stage/log/test_sequence_seen.py stage/log/test_sequence_strays.py"
    " stage/log/test_sequencer.py stage/log/test_keys.py stage/log/test_interleavings.py"
    " stage/log/test_restore.py stage/log/test_wake.py stage/log/test_backlog.py"
    " stage/log/test_unrouted.py stage/log/test_chunks.py stage/log/test_prepared.py"
    " stage/partitions stage/log/test_plans.py stage/log/test_stress.py stage/log/test_crash.py"
    " stage/attack/test_producer.py stage/attack/test_locks.py"
)
_TOPICS = (
    "stage/twins/test_topic_calls.py stage/log/test_unrouted_rows.py stage/log/test_topics.py"
    " stage/cli/test_topics_groups.py stage/log/test_roles.py"
    " stage/cli/test_run_topics.py stage/partitions stage/log/test_unrouted.py"
)
_RETENTION = (
    "stage/retention stage/cli/test_retention.py stage/worker/test_retention.py stage/compaction"
    " stage/log/test_chunks.py stage/log/test_restore.py"
)
_DEDUPE = (
    "stage/log/test_dedupe.py stage/cli/test_dedupe.py stage/log/test_roles.py"
    f" stage/log/test_restore.py {_SET}"
)
_WAIT = (
    "stage/control/test_wait.py stage/control/test_wait_through.py stage/cli/test_publish.py"
    " stage/consume/test_chain.py"
)
_HOSTS = "stage/log/test_publish_hosts.py stage/frameworks unit/test_statements.py"
_TRACE = "stage/twins/test_forest.py stage/control/test_trace.py stage/cli/test_trace.py stage/log/test_plans.py"
_CHAIN = (
    "stage/twins/test_chain_states.py stage/twins/test_chain_through.py stage/twins/test_chain_units.py"
    " stage/twins/test_chain_trace.py stage/twins/test_chain_words.py"
)
_CONTROL = (
    f"{_PLACES} stage/control/test_seek.py stage/control/test_pause.py stage/cli/test_control.py"
    " stage/consume/test_go_on.py stage/retention stage/worker/test_control.py"
    " stage/worker/test_pause.py stage/worker/test_astray.py stage/cli/test_places.py"
)
_SPARK = "unit/test_spark_ranges.py stage/spark stage/log/test_plans.py"
_READ = "stage/twins/test_reads.py stage/twins/test_reads_found.py stage/log/test_read.py stage/cli/test_tail.py stage/cli/test_lines.py stage/log/test_plans.py"

_PLAN = (
    f"{_LEASE} stage/partitions stage/consume/test_letters_and_barriers.py"
    " stage/worker/test_kill.py stage/worker/test_wakeups.py stage/cli/test_topics_groups.py"
)
_REPLAY = "stage/cli/test_replay.py stage/retention"
_PLACE = f"{_READ} stage/control stage/retention stage/cli/test_publish.py"

_QUEUE = "stage/queue stage/twins stage/queue_py"
_SUBSCRIPTION = (
    "stage/consume/test_conditions.py stage/consume/test_condition_kills.py"
    " stage/consume/test_subscriptions.py stage/cli/test_subscriptions.py"
    f" stage/ops/test_subscription_expiry.py stage/consume/test_filters.py {_SET}"
)
_LATER = f"stage/later {_SET}"
_COMPACTION = f"stage/compaction stage/cli/test_compaction.py {_SET}"
_SCHEMAS = f"{_SET} unit/test_conform.py unit/test_conform_bounds.py stage/schemas stage/cli/test_schemas.py stage/ops/test_schemas.py"
_COMPACTION = (
    "stage/twins/test_compaction_rows.py stage/twins/test_compaction_steps.py"
    " stage/twins/test_compaction_reads.py stage/twins/test_compaction_claims.py"
    f" stage/twins/test_compaction_meanwhile.py stage/compaction stage/cli/test_compaction.py {_SET}"
)
_SCHEMAS = f"stage/twins/test_schema_calls.py {_SET} unit/test_conform.py stage/schemas stage/cli/test_schemas.py stage/ops/test_schemas.py"


def _files(names: str, tests: str) -> dict[str, str]:
    return dict.fromkeys((f"sql/*/{name}.sql" for name in names.split()), tests)


TABLE = {
    "*/gapless/consume/outside/delivery.py": _DELIVER,
    "*/gapless/consume/outside/calls.py": _DELIVER,
    "*/gapless/consume/outside/lookahead.py": _DELIVER,
    "*/gapless/consume/outside/window.py": _DELIVER,
    "*/gapless/consume/user/chain.py": "stage/consume/test_chain.py stage/consume/test_misbehaving.py",
    "*/gapless/features/scheduled/declared.py": f"unit/test_scheduled_functions.py {_LATER}",
    "*/gapless/consume/batch.py": f"unit/test_wrapped.py {_STEP} {_STEP_TOO}",
    "*/gapless/consume/user/watch.py": "unit/test_watch.py unit/test_meter.py"
    " stage/observe/test_metrics.py stage/observe/test_traces.py",
    "*/gapless/consume/user/guard.py": _SCHEMAS,
    "*/gapless/consume/user/awaited.py": "stage/consume/test_async.py stage/consume/test_handler.py",
    "*/gapless/consume/user/check.py": "stage/consume/test_handler.py stage/consume/test_terms.py unit",
    "*/gapless/features/filters/kept.py": f"unit/test_kept.py {_SUBSCRIPTION}",
    "*/gapless/worker/roster.py": "unit/test_roster.py unit/test_children.py stage/worker",
    "*/gapless/features/metrics/*": "stage/observe",
    "*/gapless/worker/console.py": "unit/test_console_stop.py stage/test_run_console.py",
    "*/gapless/features/compaction/duty.py": f"{_COMPACTION} stage/worker/test_start.py",
    "*/gapless/features/queue/worker.py": "unit/test_queue_host.py stage/queue_py",
    "*/gapless/worker/systemd.py": "unit/test_worker_small.py stage/worker/test_systemd.py",
    "*/gapless/worker/pid_one.py": "unit/test_children_processes.py stage/cli/test_pid_one.py",
    "*/gapless/features/queue/pool.py": "unit/test_pool.py stage/queue/test_deaths.py stage/queue_py"
    f" {_WORKER}",
    "*/gapless/features/scheduled/later.py": f"unit/test_promoter.py {_LATER}",
    "*/gapless/features/scheduled/schedules.py": _LATER,
    "*/gapless/features/compaction/latest.py": _COMPACTION,
    "*/gapless/features/schemas/stored.py": _SCHEMAS,
    "*/gapless/features/schemas/conform.py": _SCHEMAS,
    "*/gapless/features/filters/stored.py": f"stage/cli/test_filters.py {_SUBSCRIPTION}",
    "*/gapless/features/expiry/stored.py": f"stage/ops/test_expiry.py {_SUBSCRIPTION}",
    "*/gapless/features/queue/*": "unit/test_queue_driver.py unit/test_queue_calls.py"
    " unit/test_queue_steps.py unit/test_shares.py unit/test_py_queue_options.py stage/queue_py",
    "*/gapless/features/filters/*": _SUBSCRIPTION,
    "*/gapless/features/scheduled/*": _LATER,
    "*/gapless/features/compaction/*": _COMPACTION,
    "*/gapless/features/schemas/*": _SCHEMAS,
    "*/gapless/features/expiry/*": f"stage/ops/test_expiry.py {_SUBSCRIPTION}",
    "*/gapless/features/retention/*": _RETENTION,
    "*/gapless/log/search.py": "stage/log/test_slices.py stage/log/test_search.py",
    "*/gapless/consume/isolate.py": f"{_STEP} {_LETTERS}",
    "*/gapless/consume/aside/letters.py": f"unit/test_letters.py {_LETTERS} {_STEP} {_DELIVER}",
    "*/gapless/consume/verdict/policy.py": f"{_LETTERS} {_STEP} {_DELIVER}",
    "*/gapless/consume/aside/retry.py": f"unit/test_retrying.py {_LETTERS}"
    f" stage/consume/test_transient.py {_DELIVER}",
    "*/gapless/consume/aside/parking.py": f"{_LETTERS} {_DELIVER}",
    "*/gapless/consume/verdict/crash.py": f"{_STEP} {_DELIVER}",
    "*/gapless/consume/user/handler.py": "unit/test_handler_options.py stage/consume/test_handler.py"
    " stage/consume/test_terms.py unit/test_py_queue_options.py"
    f" unit/test_policy.py {_LETTERS} {_DELIVER}",
    "*/gapless/consume/user/load.py": "stage/consume/test_handler.py stage/consume/test_terms.py"
    " stage/cli/test_bad_input.py stage/cli/test_run_topics.py stage/cli/test_main.py"
    " stage/cli/test_replay.py",
    "*/gapless/consume/terms.py": f"stage/consume/test_terms.py {_STEP} {_DELIVER}",
    "*/gapless/log/wait.py": f"unit/test_wait_verdicts.py stage/log/test_rows_wait.py {_WAIT}",
    "*/gapless/consume/verdict/wish.py": f"{_LETTERS} {_DELIVER}",
    "*/gapless/consume/drive.py": f"{_LETTERS} {_STEP} {_DELIVER} stage/worker/test_redrive.py"
    " stage/worker/test_hole.py stage/worker/test_sessions.py stage/worker/test_poison.py",
    "*/gapless/consume/read/*": f"unit/test_reading_units.py unit/test_joining_segments.py {_STEP}"
    f" {_STEP_TOO} {_SUBSCRIPTION} {_COMPACTION}"
    " stage/consume/test_encodings.py stage/consume/test_same_units.py",
    "*/gapless/consume/*": f"{_STEP} {_STEP_TOO} stage/consume/test_wire.py"
    " stage/consume/test_encodings.py stage/consume/test_same_units.py",
    "*/gapless/lease/squatters.py": "stage/attack",
    "*/gapless/lease/*": f"{_LEASE} {_WORKER}",
    "*/gapless/worker/reconcile.py": f"unit/test_reconcile.py {_WORKER}",
    "*/gapless/worker/sequencer.py": f"stage/worker/test_sequencer.py stage/attack {_WORKER}",
    "*/gapless/worker/*": f"{_WORKER} stage/cli/test_run_topics.py stage/test_run_console.py",
    "*/gapless/log/publish.py": f"unit/test_statements.py {_ROWS} {_PUBLISH}",
    "*/gapless/log/record.py": f"unit/test_keyed.py {_PUBLISH}",
    "*/gapless/log/event.py": f"unit/test_event.py unit/test_unit.py {_READ} {_PUBLISH} stage/consume/test_payloads.py",
    "*/gapless/log/keyed.py": f"unit/test_keyed.py {_ROWS} {_DEDUPE} {_PUBLISH}",
    "*/gapless/log/cause.py": f"unit/test_event.py stage/consume/test_chain.py {_TRACE} {_PUBLISH}",
    "*/gapless/log/read.py": f"unit/test_statements.py stage/log/test_rows_read.py {_READ}"
    " stage/consume/test_claim.py",
    "*/gapless/log/tail.py": "unit/test_tail_pace.py stage/log/test_slices.py stage/cli/test_tail.py stage/cli/test_lines.py stage/cli/test_json.py",
    "*/gapless/log/ranges.py": "stage/log/test_slices.py stage/gateway",
    "*/gapless/log/fields.py": "unit/test_fields.py stage/consume/test_payloads.py",
    "*/gapless/features/retention/chunks.py": _RETENTION,
    "*/gapless/log/catch_up.py": f"stage/log/test_catch_up.py {_SEQUENCE} {_WAIT} {_RETENTION}",
    "*/gapless/log/codec.py": f"unit/test_codec.py unit/test_publish_json.py {_PUBLISH}",
    "*/gapless/log/typed.py": "unit/test_typed.py unit/test_fields.py"
    " stage/consume/test_payloads.py",
    "*/gapless/log/given.py": f"unit/test_statements.py unit/test_publish_json.py {_PUBLISH}",
    "*/gapless/log/borrowed.py": f"unit/test_borrowed.py {_HOSTS}",
    "*/gapless/log/foreign.py": f"stage/log/test_scripts_played.py {_ROWS} {_HOSTS}",
    "*/gapless/log/play.py": f"stage/log/test_scripts_played.py {_ROWS} {_PUBLISH}",
    "*/gapless/log/known.py": "unit/test_known.py stage/schemas",
    "*/gapless/log/promote.py": "unit/test_promoter.py",
    "*/gapless/log/topics.py": f"stage/log/test_rows_topics.py {_TOPICS}",
    "*/gapless/log/sequence.py": f"stage/log/test_rows_sequencing.py {_SEQUENCE}",
    "*/gapless/log/publish_request.py": "stage/log/test_rows_once.py stage/gateway/test_publish.py",
    "*/gapless/features/messages/*": "stage/log/test_rows_request.py stage/consume/test_request.py",
    "*/gapless/log/statements.py": f"unit/test_statements.py {_ROWS} {_PUBLISH}",
    "*/gapless/log/*": f"unit/test_statements.py {_SEQUENCE} {_PUBLISH}",
    "sql/features/queue/functions/*": f"{_QUEUE} stage/gateway/test_queue.py",
    "sql/features/clients/functions/*": "stage/client stage/gateway/test_members.py",
    "sql/features/attach/functions/*": "stage/attach stage/cli/test_attach.py stage/classic",
    "sql/features/capture/functions/*": "stage/capture stage/cli/test_capture.py",
    "sql/features/classic/functions/*": "stage/twins/test_classic_shown.py stage/twins/test_classic_told.py"
    " stage/classic stage/cli/test_classic.py",
    "sql/features/filters/functions/*": _SUBSCRIPTION,
    "sql/features/scheduled/functions/*": _LATER,
    "sql/features/compaction/functions/*": _COMPACTION,
    "sql/features/schemas/functions/*": _SCHEMAS,
    "sql/features/webhooks/functions/*": f"stage/webhooks stage/cli/test_webhooks.py {_SET}",
    "sql/features/gateway/functions/*": f"stage/twins/test_keys_of_gateway.py stage/log/test_roles.py stage/gateway/test_access.py {_SET}",
    "sql/consume/functions/aside/*": f"{_LETTERS} stage/consume/test_deliver.py stage/partitions"
    " stage/cli/test_dlq.py stage/control/test_pause.py",
    **_files("close_chain refuse_untold", f"{_CHAIN} {_STEP} stage/consume/test_misbehaving.py"),
    **_files("locate timeline_of xid_of", f"{_CHAIN} {_PLACE}"),
    "sql/log/functions/chain/transaction_*.sql": f"{_CHAIN} {_WAIT} {_TRACE} {_PUBLISH}",
    "sql/log/functions/chain/*": f"{_CHAIN} stage/consume/test_chain.py {_TRACE} {_WAIT}",
    "sql/consume/functions/claim/*_constraints.sql": "stage/consume/test_deferred.py",
    "sql/consume/functions/claim/*_attempt.sql": f"{_LEASE} stage/consume/test_deaths.py",
    "sql/consume/functions/claim/*_deliveries.sql": f"{_PLACES} {_DELIVER}",
    "sql/consume/functions/claim/*_settings.sql": f"stage/consume/test_misbehaving.py {_STEP}",
    "sql/consume/functions/claim/settings_*.sql": f"stage/consume/test_misbehaving.py {_STEP}",
    **_files("claim claim_at", f"{_PLACES} {_STEP} stage/control stage/partitions"),
    "sql/consume/functions/claim/lock_fence.sql": f"{_LETTERS} {_DELIVER}",
    **_files(
        "skip_hole torn_unit",
        f"stage/twins stage/worker/test_hole.py {_STEP} stage/cli/test_control.py",
    ),
    "sql/consume/functions/claim/skip_overrun.sql": f"stage/retention {_STEP}",
    "sql/consume/functions/claim/stop_*.sql": _CONTROL,
    "sql/consume/functions/claim/user_*.sql": f"stage/consume/test_group_by.py {_STEP}",
    "sql/consume/functions/claim/*": f"{_PLACES} {_STEP} stage/partitions"
    " stage/consume/test_misbehaving.py",
    "sql/features/dedupe/functions/*": _DEDUPE,
    "sql/consume/functions/group/create_group.sql": _PLAN,
    **_files("create_replay create_trial take_replay", _REPLAY),
    "sql/consume/functions/group/drop_group.sql": f"{_REPLAY} stage/cli/test_topics_groups.py",
    "sql/consume/functions/group/*": f"{_CONTROL} stage/test_status.py stage/cli/test_topics_groups.py",
    "sql/lease/functions/lease/check_leases.sql": "stage/lease stage/cli/test_doctor.py",
    "sql/lease/functions/lease/sessions_needed.sql": "stage/lease/test_room.py stage/cli/test_doctor.py",
    **_files("end_squatters may_lease", f"stage/attack {_LEASE}"),
    **_files("plan sync", _PLAN),
    "sql/lease/functions/lease/*": f"{_LEASE} stage/consume/test_fence.py"
    " stage/consume/test_deaths.py stage/worker/test_wakeups.py",
    "sql/lease/functions/member/*": _PLAN,
    **_files("add_partitions set_partitions", f"stage/partitions {_TOPICS}"),
    "sql/partitions/functions/*": f"{_PLACES} {_PLAN}",
    "sql/features/spark/functions/*": f"{_SPARK} stage/retention",
    "sql/log/functions/publish/canonical_host.sql": f"{_PUBLISH} stage/control/test_trace.py",
    "sql/log/functions/publish/transaction_uuid.sql": f"{_WAIT} {_TRACE} {_PUBLISH}",
    "sql/log/functions/publish/*": f"{_PUBLISH} {_DEDUPE}",
    "sql/log/functions/read/read.sql": _READ,
    **_files("last_base unit_end", f"{_RETENTION} stage/log/test_unrouted.py"),
    "sql/log/functions/read/*": _PLACE,
    "sql/features/retention/functions/*": f"{_RETENTION} stage/log/test_unrouted.py",
    "sql/consume/functions/seek/*": f"{_CONTROL} stage/partitions",
    **_files(
        "break_sequencer stands_still",
        f"stage/attack {_SEQUENCE} stage/worker/test_sequencer.py",
    ),
    "sql/log/functions/sequence/timeline*.sql": f"{_TRACE} {_WAIT} stage/test_failover.py",
    **_files("order_key partition_of", f"{_SEQUENCE} stage/worker/test_sequencer.py"),
    "sql/log/functions/topic/*": _TOPICS,
    "sql/*": f"{_SEQUENCE} stage/worker/test_sequencer.py",
}


def tests_for(path: str) -> list[str]:
    """Return the test files and folders that matter for a file of the checkout."""
    for pattern, tests in TABLE.items():
        if fnmatch(path, pattern):
            words = tests.split()
            if path.startswith("sql/"):
                words.append("stage/twins")  # compares all rows, whichever function changed them
            listed = [f"tests/{each}" for each in dict.fromkeys(words)]
            return listed + [each for each in _naming(path) if not _is_in(each, listed)]
    raise LookupError(
        f"{path}: no tests are known that are about it: add it to tests/mutate/table.py"
    )


def _is_in(file: str, places: list[str]) -> bool:
    return any(file == place or file.startswith(f"{place}/") for place in places)


def _naming(path: str) -> list[str]:
    name = path.removeprefix("supervisor/").removesuffix(".py").replace("/", ".")
    if path.endswith(".sql"):
        name = f"gapless.{Path(path).stem}"
    found = sorted(_names().get(name, ()))
    return found if len(found) <= NAMING_MAX else []


@cache
def _names() -> dict[str, set[str]]:
    """Return what files of tests name, `gapless.` before it, and which do."""
    found: dict[str, set[str]] = {}
    for file in (
        *(ROOT / "tests/unit").rglob("test_*.py"),
        *(ROOT / "tests/stage").rglob("test_*.py"),
    ):
        for name in re.findall(r"\bgapless(?:\.\w+)+", file.read_text()):
            found.setdefault(name, set()).add(str(file.relative_to(ROOT)))
    return found
