"""Which tests a mutant is tried against: those that are about its file, and its neighbours.

The first pattern that fits counts. Paths below tests/; those that ended earlier mutants of the same
file run first, then those that name what is mutated, then the quick ones. Files of tests that name
the module or the function of SQL come with them, unless they are many.
"""

import re
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

from mutate.mutant import ROOT

WHOLE = {"chaos", "journeys", "migration", "refused", "docs", "bench", "packaging", "mutate"}
NAMING_MAX = 12  # files of tests; what more of them name says nothing about them

_SET = "across/test_settings_alone.py"
_PLACES = f"twins {_SET}"
_LETTERS = (
    f"{_PLACES} consume/unit/test_policy.py consume/test_dead_letters.py consume/test_letter_sql.py"
    " consume/test_deaths.py consume/test_policies.py"
    " partitions/test_letters.py"
    " worker/test_redrive.py"
)
_STEP = (
    "consume/unit/test_unit.py consume/test_claim.py consume/test_fence.py"
    " consume/test_deaths.py consume/test_prefetch.py consume/test_go_on.py"
    " consume/test_transient.py consume/test_dead_letters.py"
    " consume/test_deferred.py consume/test_rest.py consume/test_cut_off.py"
)
_STEP_TOO = (
    "consume/test_group_by.py consume/test_misbehaving.py"
    " consume/test_large_and_lethal.py consume/test_chain.py"
    " consume/test_ledger.py"
)
_DELIVER = (
    "consume/unit/test_window.py consume/test_beside.py consume/unit/test_agenda.py"
    " consume/test_deliver.py consume/test_deaths.py"
    " worker/test_shared_worker.py"
)
_LEASE = f"{_PLACES} lease worker/test_share.py worker/test_leave.py"
_WORKER = (
    "worker/unit/test_reconcile.py worker/test_start.py worker/test_share.py"
    " worker/test_leave.py worker/test_restart.py worker/test_failures.py"
    " worker/test_kill.py worker/test_control.py worker/test_sequencer.py"
    " worker/test_pause.py worker/test_poison.py worker/test_hole.py"
    " worker/test_sessions.py worker/test_hygiene.py worker/test_partitions.py"
    " worker/test_shared_worker.py worker/test_redrive.py worker/test_wakeups.py"
    " worker/test_failure_storm.py features/retention/test_kills.py"
    " worker/test_astray.py worker/test_many.py"
)
_PUBLISH = (
    "log/unit/test_codec.py log/test_publish.py log/test_publish_refused.py"
    " log/test_publish_sql.py log/test_keys.py log/test_hosts.py"
    " features/dedupe/test_dedupe.py consume/test_chain.py"
)
_ROWS = "log/test_rows_publish.py log/test_publish_hosts.py"
_SEQUENCE = (
    "log/test_sequence_rows.py log/test_sequence_seen.py log/test_sequence_strays.py"
    " log/test_sequencer.py log/test_keys.py log/test_interleavings.py"
    " across/test_restore.py log/test_wake.py log/test_backlog.py"
    " log/test_unrouted.py log/test_chunks.py log/test_prepared.py"
    " partitions across/test_plans.py log/test_stress.py log/test_crash.py"
    " attack/test_producer.py attack/test_locks.py"
)
_TOPICS = (
    "log/twins/test_topic_calls.py log/test_unrouted_rows.py log/test_topics.py"
    " cli/test_topics_groups.py across/test_roles.py"
    " cli/test_run_topics.py partitions log/test_unrouted.py"
)
_RETENTION = (
    "features/retention features/retention/test_retention_commands.py features/retention/test_kills.py features/compaction"
    " log/test_chunks.py across/test_restore.py"
)
_DEDUPE = (
    "features/dedupe/test_dedupe.py features/dedupe/test_dedupe_commands.py across/test_roles.py"
    f" across/test_restore.py {_SET}"
)
_WAIT = (
    "log/test_wait.py features/chains/test_wait_through.py cli/test_publish.py"
    " consume/test_chain.py"
)
_HOSTS = "log/test_publish_hosts.py frameworks log/unit/test_statements.py"
_TRACE = "features/chains/twins/test_forest.py features/chains/test_trace.py features/chains/test_trace_commands.py across/test_plans.py"
_CHAIN = (
    "log/twins/test_chain_states.py log/twins/test_chain_through.py features/chains/twins/test_chain_units.py"
    " features/chains/twins/test_chain_trace.py log/twins/test_chain_words.py"
)
_CONTROL = (
    f"{_PLACES} consume/control/test_seek.py consume/control/test_pause.py cli/test_control.py"
    " consume/test_go_on.py features/retention worker/test_control.py"
    " worker/test_pause.py worker/test_astray.py cli/test_places.py"
)
_SPARK = "features/spark/unit/test_spark_ranges.py features/spark across/test_plans.py"
_READ = "log/twins/test_reads.py log/twins/test_reads_found.py log/test_read.py cli/test_tail.py cli/test_lines.py across/test_plans.py"

_PLAN = f"{_LEASE} partitions worker/test_kill.py worker/test_wakeups.py cli/test_topics_groups.py"
_REPLAY = "features/replay/test_replay_commands.py features/retention"
_PLACE = f"{_READ} consume/control features/retention cli/test_publish.py"

_QUEUE = "features/queue twins"
_SUBSCRIPTION = (
    "features/filters/test_conditions.py features/filters/test_condition_kills.py"
    " features/filters/test_subscriptions.py features/filters/test_subscription_commands.py"
    f" features/expiry/test_subscription_expiry.py features/filters/test_filters.py {_SET}"
)
_LATER = f"features/scheduled {_SET}"
_COMPACTION = (
    "features/compaction/twins/test_compaction_rows.py features/compaction/twins/test_compaction_steps.py"
    " features/compaction/twins/test_compaction_reads.py features/compaction/twins/test_compaction_claims.py"
    f" features/compaction/twins/test_compaction_meanwhile.py features/compaction features/compaction/test_compaction_commands.py {_SET}"
)
_SCHEMAS = f"features/schemas/twins/test_schema_calls.py {_SET} features/schemas/unit/test_conform.py features/schemas features/schemas/test_schema_commands.py features/schemas/test_schemas.py"


def _files(names: str, tests: str) -> dict[str, str]:
    return dict.fromkeys((f"sql/*/{name}.sql" for name in names.split()), tests)


TABLE = {
    "*/gapless/consume/outside/delivery.py": f"{_DELIVER} features/compaction/test_start.py",
    "*/gapless/consume/outside/calls.py": _DELIVER,
    "*/gapless/consume/outside/lookahead.py": _DELIVER,
    "*/gapless/consume/outside/window.py": _DELIVER,
    "*/gapless/consume/user/chain.py": "consume/test_chain.py consume/test_misbehaving.py",
    "*/gapless/consume/user/call.py": f"{_STEP} {_STEP_TOO} consume/test_wire.py worker/test_forking.py",
    "*/gapless/features/scheduled/declared.py": f"features/scheduled/unit/test_scheduled_functions.py {_LATER}",
    "*/gapless/consume/batch.py": f"consume/unit/test_wrapped.py {_STEP} {_STEP_TOO}",
    "*/gapless/consume/user/watch.py": "consume/unit/test_watch.py telemetry/unit/test_meter.py"
    " features/metrics/test_metrics.py telemetry/test_traces.py",
    "*/gapless/consume/user/guard.py": _SCHEMAS,
    "*/gapless/consume/user/awaited.py": "consume/test_async.py consume/test_handler.py",
    "*/gapless/consume/user/check.py": "consume/test_handler.py consume/test_terms.py consume/unit",
    "*/gapless/features/filters/filtered.py": f"features/filters/unit/test_kept.py {_SUBSCRIPTION}",
    "*/gapless/worker/roster.py": "worker/unit/test_roster.py worker/unit/test_children.py worker",
    "*/gapless/features/metrics/*": "features/metrics",
    "*/gapless/worker/console.py": "worker/unit/test_console_stop.py worker/test_run_console.py",
    "*/gapless/features/compaction/duty.py": f"{_COMPACTION} worker/test_start.py",
    "*/gapless/features/queue/worker.py": "features/queue/test_py_host.py features/queue",
    "*/gapless/worker/systemd.py": "worker/unit/test_worker_small.py worker/test_systemd.py",
    "*/gapless/worker/pid_one.py": "worker/unit/test_children_processes.py worker/test_pid_one.py",
    "*/gapless/features/queue/pool.py": "worker/unit/test_children.py features/queue/test_deaths.py features/queue"
    f" {_WORKER}",
    "*/gapless/features/scheduled/later.py": f"features/scheduled/unit/test_promoter.py {_LATER}",
    "*/gapless/features/scheduled/schedules.py": _LATER,
    "*/gapless/features/compaction/latest.py": _COMPACTION,
    "*/gapless/features/schemas/stored.py": _SCHEMAS,
    "*/gapless/features/schemas/conform.py": _SCHEMAS,
    "*/gapless/features/filters/stored.py": f"features/filters/test_filter_commands.py {_SUBSCRIPTION}",
    "*/gapless/features/expiry/stored.py": f"features/expiry/test_expiry.py {_SUBSCRIPTION}",
    "*/gapless/features/queue/*": "features/queue/test_py_turns.py features/queue/test_py_calls.py"
    " features/queue/unit/test_shares.py features/queue/unit/test_py_queue_options.py features/queue",
    "*/gapless/features/filters/*": _SUBSCRIPTION,
    "*/gapless/features/scheduled/*": _LATER,
    "*/gapless/features/compaction/*": _COMPACTION,
    "*/gapless/features/schemas/*": _SCHEMAS,
    "*/gapless/features/expiry/*": f"features/expiry/test_expiry.py {_SUBSCRIPTION}",
    "*/gapless/features/retention/*": _RETENTION,
    "*/gapless/features/history/*": "features/history",
    "*/gapless/log/search.py": "log/test_slices.py log/test_search.py",
    "*/gapless/consume/isolate.py": f"{_STEP} {_LETTERS}",
    "*/gapless/consume/aside/record.py": f"consume/unit/test_letters.py {_LETTERS} {_STEP} {_DELIVER}",
    "*/gapless/consume/verdict/policy.py": f"{_LETTERS} {_STEP} {_DELIVER}",
    "*/gapless/consume/aside/retry.py": f"consume/test_retrying.py {_LETTERS}"
    f" consume/test_transient.py {_DELIVER}",
    "*/gapless/consume/aside/parking.py": f"{_LETTERS} {_DELIVER}",
    "*/gapless/consume/user/handler.py": "consume/unit/test_handler_options.py consume/test_handler.py"
    " consume/test_terms.py features/queue/unit/test_py_queue_options.py"
    f" consume/unit/test_policy.py {_LETTERS} {_DELIVER}",
    "*/gapless/consume/user/load.py": "consume/test_handler.py consume/test_terms.py"
    " cli/test_bad_input.py cli/test_run_topics.py cli/test_main.py"
    " features/replay/test_replay_commands.py",
    "*/gapless/consume/terms.py": f"consume/test_terms.py {_STEP} {_DELIVER}",
    "*/gapless/log/wait.py": f"log/unit/test_wait_verdicts.py log/test_rows_wait.py {_WAIT}",
    "*/gapless/consume/verdict/wish.py": f"{_LETTERS} {_DELIVER}",
    "*/gapless/consume/drive.py": f"consume/test_turns.py {_LETTERS} {_STEP} {_DELIVER} worker/test_redrive.py"
    " worker/test_hole.py worker/test_sessions.py worker/test_poison.py"
    " features/filters/test_condition_kills.py",
    "*/gapless/consume/read/*": f"consume/unit/test_reading_units.py consume/unit/test_joining_segments.py {_STEP}"
    f" {_STEP_TOO} {_SUBSCRIPTION} {_COMPACTION}"
    " consume/test_encodings.py consume/test_same_units.py",
    "*/gapless/consume/*": f"{_STEP} {_STEP_TOO} consume/test_wire.py"
    " consume/test_encodings.py consume/test_same_units.py",
    "*/gapless/lease/foreign_locks.py": "attack",
    "*/gapless/lease/*": f"{_LEASE} {_WORKER}",
    "*/gapless/worker/reconcile.py": f"worker/unit/test_reconcile.py {_WORKER}",
    "*/gapless/worker/sequencer.py": f"worker/test_sequencer.py attack {_WORKER}",
    "*/gapless/worker/*": f"{_WORKER} cli/test_run_topics.py worker/test_run_console.py",
    "*/gapless/log/publish.py": f"log/unit/test_statements.py {_ROWS} {_PUBLISH}",
    "*/gapless/log/record.py": f"log/unit/test_keyed.py {_PUBLISH}",
    "*/gapless/log/event.py": f"log/unit/test_event.py consume/unit/test_unit.py {_READ} {_PUBLISH} consume/test_payloads.py",
    "*/gapless/log/keyed.py": f"log/unit/test_keyed.py {_ROWS} {_DEDUPE} {_PUBLISH}",
    "*/gapless/log/cause.py": f"log/unit/test_event.py consume/test_chain.py {_TRACE} {_PUBLISH}",
    "*/gapless/log/read.py": f"log/unit/test_statements.py log/test_rows_read.py {_READ}"
    " consume/test_claim.py",
    "*/gapless/log/tail.py": "log/unit/test_tail_pace.py log/test_slices.py cli/test_tail.py cli/test_lines.py cli/test_json.py",
    "*/gapless/log/ranges.py": "log/test_slices.py features/gateway",
    "*/gapless/log/fields.py": "log/unit/test_fields.py consume/test_payloads.py",
    "*/gapless/features/retention/chunks.py": _RETENTION,
    "*/gapless/log/catch_up.py": f"log/test_catch_up.py {_SEQUENCE} {_WAIT} {_RETENTION}",
    "*/gapless/log/codec.py": f"log/unit/test_codec.py {_PUBLISH}",
    "*/gapless/log/typed.py": "log/unit/test_typed.py log/unit/test_fields.py"
    " consume/test_payloads.py",
    "*/gapless/log/given.py": f"log/unit/test_statements.py log/unit/test_codec.py {_PUBLISH}",
    "*/gapless/log/borrowed.py": f"log/unit/test_borrowed.py {_HOSTS}",
    "*/gapless/log/foreign.py": f"log/test_scripts_played.py {_ROWS} {_HOSTS}",
    "*/gapless/log/play.py": f"log/test_scripts_played.py {_ROWS} {_PUBLISH}",
    "*/gapless/log/known.py": "log/unit/test_known.py features/schemas",
    "*/gapless/log/promote.py": "features/scheduled/unit/test_promoter.py",
    "*/gapless/log/topics.py": f"log/test_rows_topics.py {_TOPICS}",
    "*/gapless/log/sequence.py": f"log/test_rows_sequencing.py {_SEQUENCE}",
    "*/gapless/log/publish_request.py": "log/test_rows_once.py features/gateway/test_publish.py",
    "*/gapless/features/messages/*": "features/messages/test_rows_request.py features/messages/test_request.py",
    "*/gapless/log/statements.py": f"log/unit/test_statements.py {_ROWS} {_PUBLISH}",
    "*/gapless/log/*": f"log/unit/test_statements.py {_SEQUENCE} {_PUBLISH}",
    "sql/features/queue/functions/*": f"{_QUEUE} features/gateway/test_queue.py",
    "sql/features/clients/functions/*": "features/clients features/gateway/test_members.py",
    "sql/features/attach/functions/*": "features/attach features/attach/test_attach_commands.py features/classic",
    "sql/features/capture/functions/*": "features/capture features/capture/test_capture_commands.py",
    "sql/features/classic/functions/*": "features/classic/twins/test_classic_shown.py features/classic/twins/test_classic_told.py"
    " features/classic features/classic/test_classic_commands.py",
    "sql/features/filters/functions/*": _SUBSCRIPTION,
    "sql/features/scheduled/functions/*": _LATER,
    "sql/features/compaction/functions/*": _COMPACTION,
    "sql/features/schemas/functions/*": _SCHEMAS,
    "sql/features/webhooks/functions/*": f"features/webhooks features/webhooks/test_webhook_commands.py {_SET}",
    "sql/features/gateway/functions/*": f"features/gateway/twins/test_keys_of_gateway.py across/test_roles.py features/gateway/test_access.py {_SET}",
    "sql/consume/functions/aside/heal_letters.sql": f"across/test_clock_steps.py {_LETTERS}",
    "sql/consume/functions/aside/*": f"{_LETTERS} consume/test_deliver.py partitions"
    " cli/test_dlq.py consume/control/test_pause.py",
    **_files("close_chain refuse_untold", f"{_CHAIN} {_STEP} consume/test_misbehaving.py"),
    **_files("locate timeline_of xid_of", f"{_CHAIN} {_PLACE}"),
    "sql/log/functions/chain/transaction_*.sql": f"{_CHAIN} {_WAIT} {_TRACE} {_PUBLISH}",
    "sql/log/functions/chain/*": f"{_CHAIN} consume/test_chain.py {_TRACE} {_WAIT}",
    "sql/consume/functions/claim/*_constraints.sql": "consume/test_deferred.py",
    "sql/consume/functions/claim/*_attempt.sql": f"{_LEASE} consume/test_deaths.py",
    "sql/consume/functions/claim/*_deliveries.sql": f"{_PLACES} {_DELIVER}",
    "sql/consume/functions/claim/*_settings.sql": f"consume/test_misbehaving.py {_STEP}",
    "sql/consume/functions/claim/settings_*.sql": f"consume/test_misbehaving.py {_STEP}",
    **_files("claim claim_at", f"{_PLACES} {_STEP} consume/control partitions"),
    "sql/consume/functions/claim/lock_fence.sql": f"{_LETTERS} {_DELIVER}",
    **_files(
        "skip_hole torn_unit",
        f"twins worker/test_hole.py {_STEP} cli/test_control.py",
    ),
    "sql/consume/functions/claim/skip_overrun.sql": f"features/retention {_STEP}",
    "sql/consume/functions/claim/stop_*.sql": _CONTROL,
    "sql/consume/functions/claim/user_*.sql": f"consume/test_group_by.py {_STEP}",
    "sql/consume/functions/claim/*": f"{_PLACES} {_STEP} partitions consume/test_misbehaving.py",
    "sql/features/dedupe/functions/*": _DEDUPE,
    "sql/consume/functions/group/create_group.sql": _PLAN,
    **_files("create_replay create_trial take_replay", _REPLAY),
    "sql/consume/functions/group/drop_group.sql": f"{_REPLAY} cli/test_topics_groups.py",
    "sql/consume/functions/group/*": f"{_CONTROL} status/test_status.py cli/test_topics_groups.py",
    "sql/lease/functions/lease/check_leases.sql": "lease cli/test_doctor.py",
    "sql/lease/functions/lease/sessions_needed.sql": "lease/test_room.py cli/test_doctor.py",
    **_files("end_foreign_locks may_lease", f"attack {_LEASE}"),
    **_files("plan sync", _PLAN),
    "sql/lease/functions/lease/*": f"{_LEASE} consume/test_fence.py"
    " consume/test_deaths.py worker/test_wakeups.py",
    "sql/lease/functions/member/*": _PLAN,
    **_files("add_partitions set_partitions", f"partitions {_TOPICS}"),
    "sql/partitions/functions/*": f"{_PLACES} {_PLAN}",
    "sql/features/spark/functions/*": f"{_SPARK} features/retention",
    "sql/log/functions/publish/canonical_host.sql": f"{_PUBLISH} features/chains/test_trace.py",
    "sql/log/functions/publish/transaction_uuid.sql": f"{_WAIT} {_TRACE} {_PUBLISH}",
    "sql/log/functions/publish/*": f"{_PUBLISH} {_DEDUPE}",
    "sql/log/functions/read/read.sql": _READ,
    **_files("last_base unit_end", f"{_RETENTION} log/test_unrouted.py"),
    "sql/log/functions/read/*": _PLACE,
    "sql/features/history/functions/*": "features/history",
    "sql/features/retention/functions/*": f"{_RETENTION} log/test_unrouted.py",
    "sql/consume/functions/seek/*": f"{_CONTROL} partitions",
    **_files(
        "break_sequencer stands_still",
        f"attack {_SEQUENCE} worker/test_sequencer.py",
    ),
    "sql/log/functions/sequence/timeline*.sql": f"{_TRACE} {_WAIT} across/test_failover.py",
    **_files("order_key partition_of", f"{_SEQUENCE} worker/test_sequencer.py"),
    "sql/log/functions/topic/*": _TOPICS,
    "sql/*": f"{_SEQUENCE} worker/test_sequencer.py",
}


def tests_for(path: str) -> list[str]:
    """Return the test files and folders that matter for a file of the checkout."""
    for pattern, tests in TABLE.items():
        if fnmatch(path, pattern):
            words = tests.split()
            if path.startswith("sql/"):
                words.append("twins")  # compare all rows, whichever function changed them
            listed = [place for each in dict.fromkeys(words) for place in _places(each)]
            return listed + [each for each in _naming(path) if not _is_in(each, listed)]
    raise LookupError(
        f"{path}: no tests are known that are about it: add it to tests/mutate/table.py"
    )


def _places(word: str) -> list[str]:
    """Return the folders of all rooms that are called so, else the path of tests."""
    if word != "twins":
        return [f"tests/{word}"]
    return sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob(word))


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
    for file in (ROOT / "tests").rglob("test_*.py"):
        if file.relative_to(ROOT).parts[1] in WHOLE:
            continue
        for name in re.findall(r"\bgapless(?:\.\w+)+", file.read_text()):
            found.setdefault(name, set()).add(str(file.relative_to(ROOT)))
    return found
