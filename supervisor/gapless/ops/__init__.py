"""The work of an operator, as functions: records in, records out; nothing is printed.

    with gapless.connect(autocommit=True) as conn:
        ops.pause(conn, ops.GroupPlace.parse("billing/orders"), reason="bad deploy")
        ops.redrive_unit(conn, ops.GroupPlace.parse("billing/orders/3@17"))

Functions take an open connection of psycopg, in autocommit and with its default rows, whose role
has gapless_operator (gapless_consumer is enough to look); those that need a second session, a DSN.
They return frozen dataclasses; times have a time zone, offsets begin at 1, partitions at 0. A
record of a change also says it in words: str(record) is the text that a command prints.
An error that a person can mend is a GaplessError: UsageError for input that makes no sense, and its
subclass RefusedError, with the SQLSTATE, for requests that the database refuses. Other errors of
psycopg pass unchanged. Functions that commit step by step say so. A name is in `__all__` of its
module; modules are imported in this order, then those of each feature, until one has the name;
gapless itself imports modules.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gapless import feature
from gapless.errors import RefusedError as RefusedError
from gapless.lazily import exports

if TYPE_CHECKING:
    from gapless.features.attach.ops import *
    from gapless.features.attach.switch import *
    from gapless.features.capture.ops import *
    from gapless.features.chains.ops import *
    from gapless.features.classic.ops import *
    from gapless.features.compaction.latest import *
    from gapless.features.compaction.ops import *
    from gapless.features.expiry.ops import *
    from gapless.features.filters.ops import *
    from gapless.features.filters.subscriptions import *
    from gapless.features.filters.trial import *
    from gapless.features.gateway.keys import *
    from gapless.features.load.lines import *
    from gapless.features.load.parse import *
    from gapless.features.load.publish import *
    from gapless.features.queue.ops import *
    from gapless.features.replay.plan import *
    from gapless.features.replay.run import *
    from gapless.features.replay.tally import *
    from gapless.features.replay.trial import *
    from gapless.features.retention.chunks import *
    from gapless.features.retention.ops import *
    from gapless.features.scheduled.later import *
    from gapless.features.scheduled.ops import *
    from gapless.features.scheduled.schedule_ops import *
    from gapless.features.scheduled.schedules import *
    from gapless.features.schemas.fit import *
    from gapless.features.schemas.ops import *
    from gapless.features.server.ops import *
    from gapless.features.spark.ops import *
    from gapless.features.spark.pipeline.position import *
    from gapless.features.webhooks.ops import *
    from gapless.log.search import *
    from gapless.log.topics import *
    from gapless.ops.audit import *
    from gapless.ops.configured import *
    from gapless.ops.control import *
    from gapless.ops.dlq.change import *
    from gapless.ops.dlq.find import *
    from gapless.ops.dlq.records import *
    from gapless.ops.dlq.summary import *
    from gapless.ops.dlq.transfer import *
    from gapless.ops.doctor.finding import *
    from gapless.ops.doctor.rounds import *
    from gapless.ops.event import *
    from gapless.ops.groups import *
    from gapless.ops.happened import *
    from gapless.ops.install import *
    from gapless.ops.place import *
    from gapless.ops.programs import *
    from gapless.ops.remedy import *
    from gapless.ops.topics import *
    from gapless.ops.upgrade import *
    from gapless.ops.work import *

if not TYPE_CHECKING:
    _OWN = (
        "gapless.ops.place",
        "gapless.ops.control",
        "gapless.ops.groups",
        "gapless.ops.work",
        "gapless.log.topics",
        "gapless.ops.topics",
        "gapless.ops.audit",
        "gapless.ops.event",
        "gapless.ops.configured",
        "gapless.ops.dlq.change",
        "gapless.ops.dlq.find",
        "gapless.ops.dlq.records",
        "gapless.ops.dlq.summary",
        "gapless.ops.dlq.transfer",
        "gapless.ops.doctor.finding",
        "gapless.ops.doctor.rounds",
        "gapless.ops.happened",
        "gapless.ops.install",
        "gapless.ops.programs",
        "gapless.ops.remedy",
        "gapless.ops.upgrade",
        "gapless.log.search",
        "gapless.features.load.lines",
        "gapless.features.load.parse",
        "gapless.features.load.publish",
    )

    def _modules() -> Iterator[str]:
        yield from _OWN
        yield from feature.parts(lambda each: each.ops)

    __getattr__, __dir__ = exports(__name__, "RefusedError", _modules)
