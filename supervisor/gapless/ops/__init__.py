"""What an operator does, as functions: records in, records out; nothing is printed.

    with gapless.connect(autocommit=True) as conn:
        ops.pause(conn, ops.GroupPlace.parse("billing/orders"), reason="bad deploy")
        ops.redrive_unit(conn, ops.GroupPlace.parse("billing/orders/3@17"))

Functions take an open connection of psycopg, in autocommit and with its default rows, whose role
has gapless_operator (to look, gapless_consumer is enough); where a second session is needed, a DSN.
They return frozen dataclasses; times have a time zone, offsets begin at 1, partitions at 0. What
says that something was done says it in words, too: str(record) is what a command prints.
What a person can mend is a GaplessError: UsageError for what makes no sense; RefusedError, which
is one, for what the database refuses, with its SQLSTATE. What is psycopg's own error stays that.
Functions that commit step by step say so. Each name is imported where it is first asked for.
"""

from typing import TYPE_CHECKING

from gapless.lazily import attributes

if TYPE_CHECKING:
    from gapless.errors import RefusedError
    from gapless.features.attach.ops import (
        Attached,
        AttachmentInfo,
        AttachPlan,
        Wish,
        attach_table,
        detach_table,
        list_attachments,
        mend_attachment,
        plan_attachment,
    )
    from gapless.features.attach.switch import hand_back, place_group, switch_group
    from gapless.features.capture.ops import (
        CaptureInfo,
        capture_table,
        list_captures,
        mend_capture,
        release_capture,
    )
    from gapless.features.chains.ops import Chain, ChainUnit, trace
    from gapless.features.classic.ops import (
        ClassicInfo,
        hide_classic,
        list_classic,
        notify_classic,
        show_classic,
        silence_classic,
    )
    from gapless.features.compaction.latest import LatestEvent, find_latest
    from gapless.features.compaction.ops import CompactionInfo, list_compactions
    from gapless.features.expiry.ops import ExpiryChange, GroupExpiry, list_expiries, set_expiry
    from gapless.features.filters.ops import (
        FilterChange,
        GroupFilter,
        clear_filter,
        list_filters,
        set_filter,
    )
    from gapless.features.filters.subscriptions import (
        SubscriptionChange,
        SubscriptionInfo,
        list_subscriptions,
        renew_subscription,
        resume_subscription,
        subscribe,
        unsubscribe,
    )
    from gapless.features.gateway.keys import CreatedKey, KeyInfo, create_key, list_keys, revoke_key
    from gapless.features.load.lines import JsonLines
    from gapless.features.load.parse import LineShape
    from gapless.features.load.publish import PublishedLines, publish_lines
    from gapless.features.queue.ops import (
        QueueJob,
        QueuePartition,
        Receipt,
        TakenEvent,
        acknowledge,
        extend,
        peek,
        queue_state,
        reject,
        release,
        take,
    )
    from gapless.features.replay.plan import (
        ReplayInfo,
        ReplayPlan,
        ReplayRange,
        ReplaySlice,
        create_replay,
        find_replay,
        list_replays,
        plan_replay,
        remove_replay,
        replay_terms,
    )
    from gapless.features.replay.run import (
        ReplayProgress,
        ReplayResult,
        replay_progress,
        run_replay,
    )
    from gapless.features.replay.tally import FailedUnit, ReplayTrial
    from gapless.features.replay.trial import try_replay
    from gapless.features.retention.chunks import Chunk, Retention, find_retention
    from gapless.features.retention.ops import drop_chunks, list_chunks
    from gapless.features.scheduled.later import cancel
    from gapless.features.scheduled.ops import (
        Cancelled,
        LaterEvent,
        LaterTotals,
        cancel_later,
        count_later,
        list_later,
    )
    from gapless.features.scheduled.schedule_ops import (
        ScheduleInfo,
        list_schedules,
        pause_schedule,
        remove_schedule,
        resume_schedule,
        run_schedule,
        show_schedule,
    )
    from gapless.features.scheduled.schedules import Schedule, add_schedule, apply_schedule
    from gapless.features.schemas.ops import (
        ChangedSchema,
        SchemaCheck,
        SchemaInfo,
        SchemaProblem,
        add_schema,
        check_schema,
        list_schemas,
        remove_schema,
        show_schema,
    )
    from gapless.features.server.ops import ServerInfo, show_server, start_server, stop_server
    from gapless.features.spark.ops import (
        RemovedPipeline,
        list_pipelines,
        remove_pipeline,
        reset_pipeline,
    )
    from gapless.features.spark.pipeline.position import PipelineStanding
    from gapless.features.webhooks.ops import (
        WebhookInfo,
        WebhookTrial,
        add_webhook,
        list_webhooks,
        pause_webhook,
        remove_webhook,
        replay_webhook,
        resume_webhook,
        show_webhook,
        try_webhook,
    )
    from gapless.log.search import EventSearch, FoundEvents, search_events
    from gapless.log.topics import Topic, adopt_topic, create_topic, discard_unrouted, find_topic
    from gapless.ops.configured import InstalledAsConfigured, install_as_configured
    from gapless.ops.control import (
        Move,
        Paused,
        Resumed,
        Skipped,
        pause,
        plan_seek,
        resume,
        seek,
        seek_paused,
        skip_hole,
    )
    from gapless.ops.dlq.change import (
        DlqOutcome,
        discard_unit,
        discard_units,
        redrive_unit,
        redrive_units,
    )
    from gapless.ops.dlq.find import DlqDetails, DlqFilter, list_units, show_unit
    from gapless.ops.dlq.records import (
        DlqEvent,
        DlqRow,
        DlqUnit,
        ParkedAhead,
        ParkedBehind,
        SameTransaction,
    )
    from gapless.ops.dlq.transfer import (
        ImportedEvent,
        ImportedUnit,
        export_units,
        import_unit,
        parse_units,
        republish_unit,
    )
    from gapless.ops.doctor.finding import Finding
    from gapless.ops.doctor.rounds import diagnose
    from gapless.ops.groups import (
        CreatedGroup,
        GroupInfo,
        GroupPartition,
        RemovedGroup,
        create_group,
        list_groups,
        remove_group,
        show_group,
    )
    from gapless.ops.happened import Happened, happened_since
    from gapless.ops.install import (
        Installed,
        Losses,
        drop_schema,
        find_losses,
        install_schema,
        is_installed,
    )
    from gapless.ops.place import EARLIEST, GroupPlace, Point
    from gapless.ops.remedy import Explained, explain
    from gapless.ops.topics import (
        AlteredTopic,
        TopicChange,
        TopicInfo,
        TopicPartition,
        UnroutedId,
        alter_topic,
        list_changes,
        list_topics,
        list_unrouted,
        show_topic,
    )
    from gapless.ops.upgrade import PlannedLock, TableSize, UpgradePlan, plan_upgrade

__all__ = [
    "EARLIEST", "AlteredTopic", "AttachPlan", "Attached", "AttachmentInfo", "Cancelled",
    "CaptureInfo", "Chain", "ChainUnit", "ChangedSchema", "Chunk", "ClassicInfo", "CompactionInfo",
    "CreatedGroup", "CreatedKey", "DlqDetails", "DlqEvent", "DlqFilter", "DlqOutcome", "DlqRow",
    "DlqUnit", "EventSearch", "ExpiryChange", "Explained", "FailedUnit", "FilterChange", "Finding",
    "FoundEvents", "GroupExpiry", "GroupFilter", "GroupInfo", "GroupPartition", "GroupPlace",
    "Happened", "ImportedEvent", "ImportedUnit", "Installed", "InstalledAsConfigured", "JsonLines",
    "KeyInfo", "LaterEvent", "LaterTotals", "LatestEvent", "LineShape", "Losses", "Move",
    "ParkedAhead", "ParkedBehind", "Paused", "PipelineStanding", "PlannedLock", "Point",
    "PublishedLines", "QueueJob", "QueuePartition", "Receipt", "RefusedError", "RemovedGroup",
    "RemovedPipeline", "ReplayInfo", "ReplayPlan", "ReplayProgress", "ReplayRange", "ReplayResult",
    "ReplaySlice", "ReplayTrial", "Resumed", "Retention", "SameTransaction", "Schedule",
    "ScheduleInfo", "SchemaCheck", "SchemaInfo", "SchemaProblem", "ServerInfo", "Skipped",
    "SubscriptionChange", "SubscriptionInfo", "TableSize", "TakenEvent", "Topic", "TopicChange",
    "TopicInfo", "TopicPartition", "UnroutedId", "UpgradePlan", "WebhookInfo", "WebhookTrial",
    "Wish", "acknowledge", "add_schedule", "add_schema", "add_webhook", "adopt_topic",
    "alter_topic", "apply_schedule", "attach_table", "cancel", "cancel_later", "capture_table",
    "check_schema", "clear_filter", "count_later", "create_group", "create_key", "create_replay",
    "create_topic", "detach_table", "diagnose", "discard_unit", "discard_units", "discard_unrouted",
    "drop_chunks", "drop_schema", "explain", "export_units", "extend", "find_latest", "find_losses",
    "find_replay", "find_retention", "find_topic", "hand_back", "happened_since", "hide_classic",
    "import_unit", "install_as_configured", "install_schema", "is_installed", "list_attachments",
    "list_captures", "list_changes", "list_chunks", "list_classic", "list_compactions",
    "list_expiries", "list_filters", "list_groups", "list_keys", "list_later", "list_pipelines",
    "list_replays", "list_schedules", "list_schemas", "list_subscriptions", "list_topics",
    "list_units", "list_unrouted", "list_webhooks", "mend_attachment", "mend_capture",
    "notify_classic", "parse_units", "pause", "pause_schedule", "pause_webhook", "peek",
    "place_group", "plan_attachment", "plan_replay", "plan_seek", "plan_upgrade", "publish_lines",
    "queue_state", "redrive_unit", "redrive_units", "reject", "release", "release_capture",
    "remove_group", "remove_pipeline", "remove_replay", "remove_schedule", "remove_schema",
    "remove_webhook", "renew_subscription", "replay_progress", "replay_terms", "replay_webhook",
    "republish_unit",
    "reset_pipeline", "resume", "resume_schedule", "resume_subscription", "resume_webhook",
    "revoke_key", "run_replay", "run_schedule", "search_events", "seek", "seek_paused",
    "set_expiry", "set_filter", "show_classic", "show_group", "show_schedule", "show_schema",
    "show_server", "show_topic", "show_unit", "show_webhook", "silence_classic", "skip_hole",
    "start_server", "stop_server", "subscribe", "switch_group", "take", "trace", "try_replay",
    "try_webhook", "unsubscribe",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__, __dir__ = attributes(
        __name__,
        {
            "gapless.errors": "RefusedError",
            "gapless.features.compaction.latest": "LatestEvent find_latest",
            "gapless.features.scheduled.later": "cancel",
            "gapless.features.retention.chunks": "Chunk Retention find_retention",
            "gapless.features.scheduled.schedules": "Schedule add_schedule apply_schedule",
            "gapless.log.search": "EventSearch FoundEvents search_events",
            "gapless.log.topics": "Topic adopt_topic create_topic discard_unrouted find_topic",
            "gapless.features.attach.ops": (
                "Attached AttachmentInfo AttachPlan Wish attach_table detach_table "
                "list_attachments mend_attachment plan_attachment"
            ),
            "gapless.features.capture.ops": (
                "CaptureInfo capture_table list_captures mend_capture release_capture"
            ),
            "gapless.features.chains.ops": "Chain ChainUnit trace",
            "gapless.features.classic.ops": (
                "ClassicInfo hide_classic list_classic notify_classic show_classic silence_classic"
            ),
            "gapless.features.compaction.ops": "CompactionInfo list_compactions",
            "gapless.ops.configured": "InstalledAsConfigured install_as_configured",
            "gapless.ops.control": (
                "Move Paused Resumed Skipped pause plan_seek resume seek seek_paused skip_hole"
            ),
            "gapless.ops.dlq.change": (
                "DlqOutcome discard_unit discard_units redrive_unit redrive_units"
            ),
            "gapless.ops.dlq.find": "DlqDetails DlqFilter list_units show_unit",
            "gapless.ops.dlq.records": (
                "DlqEvent DlqRow DlqUnit ParkedAhead ParkedBehind SameTransaction"
            ),
            "gapless.ops.dlq.transfer": (
                "ImportedEvent ImportedUnit export_units import_unit parse_units republish_unit"
            ),
            "gapless.ops.doctor.finding": "Finding",
            "gapless.ops.doctor.rounds": "diagnose",
            "gapless.features.expiry.ops": "ExpiryChange GroupExpiry list_expiries set_expiry",
            "gapless.features.filters.ops": (
                "FilterChange GroupFilter clear_filter list_filters set_filter"
            ),
            "gapless.ops.groups": (
                "CreatedGroup GroupInfo GroupPartition RemovedGroup create_group list_groups "
                "remove_group show_group"
            ),
            "gapless.ops.happened": "Happened happened_since",
            "gapless.ops.install": (
                "Installed Losses drop_schema find_losses install_schema is_installed"
            ),
            "gapless.features.scheduled.ops": (
                "Cancelled LaterEvent LaterTotals cancel_later count_later list_later"
            ),
            "gapless.features.gateway.keys": "CreatedKey KeyInfo create_key list_keys revoke_key",
            "gapless.features.load.lines": "JsonLines",
            "gapless.features.load.parse": "LineShape",
            "gapless.features.load.publish": "PublishedLines publish_lines",
            "gapless.features.spark.ops": (
                "RemovedPipeline list_pipelines remove_pipeline reset_pipeline"
            ),
            "gapless.ops.place": "EARLIEST GroupPlace Point",
            "gapless.ops.remedy": "Explained explain",
            "gapless.features.queue.ops": (
                "QueueJob QueuePartition Receipt TakenEvent acknowledge extend peek queue_state "
                "reject release take"
            ),
            "gapless.features.replay.plan": (
                "ReplayInfo ReplayPlan ReplayRange ReplaySlice create_replay find_replay "
                "list_replays plan_replay remove_replay replay_terms"
            ),
            "gapless.features.replay.run": "ReplayProgress ReplayResult replay_progress run_replay",
            "gapless.features.replay.tally": "FailedUnit ReplayTrial",
            "gapless.features.replay.trial": "try_replay",
            "gapless.features.retention.ops": "drop_chunks list_chunks",
            "gapless.features.server.ops": "ServerInfo show_server start_server stop_server",
            "gapless.features.scheduled.schedule_ops": (
                "ScheduleInfo list_schedules pause_schedule remove_schedule resume_schedule "
                "run_schedule show_schedule"
            ),
            "gapless.features.schemas.ops": (
                "ChangedSchema SchemaCheck SchemaInfo SchemaProblem add_schema check_schema "
                "list_schemas remove_schema show_schema"
            ),
            "gapless.features.filters.subscriptions": (
                "SubscriptionChange SubscriptionInfo list_subscriptions"
                " renew_subscription resume_subscription subscribe unsubscribe"
            ),
            "gapless.features.attach.switch": "hand_back place_group switch_group",
            "gapless.ops.topics": (
                "AlteredTopic TopicChange TopicInfo TopicPartition UnroutedId alter_topic "
                "list_changes list_topics list_unrouted show_topic"
            ),
            "gapless.ops.upgrade": "PlannedLock TableSize UpgradePlan plan_upgrade",
            "gapless.features.webhooks.ops": (
                "WebhookInfo WebhookTrial add_webhook list_webhooks pause_webhook remove_webhook "
                "replay_webhook resume_webhook show_webhook try_webhook"
            ),
            "gapless.features.spark.pipeline.position": "PipelineStanding",
        },
    )
