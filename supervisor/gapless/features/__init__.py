"""Features: a room each, which the core does not know. Their list, in the order of the help."""

from gapless.features.attach.feature import ATTACH
from gapless.features.capture.feature import CAPTURE
from gapless.features.chains.feature import CHAINS
from gapless.features.classic.feature import CLASSIC
from gapless.features.compaction.feature import COMPACTION
from gapless.features.expiry.feature import EXPIRY
from gapless.features.filters.feature import FILTERS
from gapless.features.gateway.feature import GATEWAY
from gapless.features.history.feature import HISTORY
from gapless.features.metrics.feature import METRICS
from gapless.features.queue.feature import QUEUE
from gapless.features.replay.feature import REPLAY
from gapless.features.retention.feature import RETENTION
from gapless.features.scheduled.feature import SCHEDULED
from gapless.features.schemas.feature import SCHEMAS
from gapless.features.server.feature import SERVER
from gapless.features.spark.feature import SPARK
from gapless.features.webhooks.feature import WEBHOOKS

FEATURES = (
    QUEUE,
    FILTERS,
    SCHEDULED,
    SCHEMAS,
    COMPACTION,
    REPLAY,
    RETENTION,
    HISTORY,
    EXPIRY,
    CHAINS,
    CAPTURE,
    ATTACH,
    CLASSIC,
    WEBHOOKS,
    GATEWAY,
    METRICS,
    SPARK,
    SERVER,
)
