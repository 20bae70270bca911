"""The mode of queue groups: any number of workers share a partition, in no order."""

from __future__ import annotations

from collections.abc import Mapping

from gapless.consume.terms import Terms
from gapless.consume.user.handler import Handler
from gapless.consume.verdict.policy import Policy
from gapless.errors import UsageError

BLOCK_EVENTS_MAX = 10_000  # events that one worker of a queue has in hand


class QueueMode:
    """The rules for handlers and groups of this mode."""

    name = "queue"

    def require_options(self, handler: Handler) -> None:
        """Raise UsageError for options of a handler that a queue cannot have."""
        name = handler.name
        if handler.batch:
            raise UsageError(
                f"{name}: a queue handler is called with one event, without batch=True"
            )
        if handler.filter is not None:
            raise UsageError(f"{name}: a queue takes every event: leave event_types and where out")
        if handler.group_by is not None:
            raise UsageError(f"{name}: in a queue one event is one unit: leave group_by out")
        if handler.on_failure and Policy(on_failure=handler.on_failure).needs_order:
            raise UsageError(
                f'{name}: a queue has no order that on_failure="{handler.on_failure}" could keep: '
                '"dead-letter" or "retry"'
            )

    def require_fit(self, handler: Handler, terms: Terms) -> None:
        """Raise UsageError for options, set or left at a default, that do not fit a queue."""
        if terms.policy.needs_order:
            raise UsageError(
                f"{handler.name}: a queue has no order that onFailure {terms.policy.on_failure} "
                'could keep: write on_failure="retry" or "dead-letter" in the handler'
            )
        if terms.delivery == "at-least-once":
            return
        for name, said in (
            ("concurrency", handler.concurrency),
            ("visibility_s", handler.visibility_s),
        ):
            if said is not None:
                raise UsageError(
                    f"{handler.name}: {name} is for at-least-once: exactly once, a worker holds "
                    "its events by its transaction, one call at a time; more workers do more at a "
                    "time"
                )

    def options_of(self, terms: Terms) -> Mapping[str, int]:
        """Return the options with which its group is created."""
        return {
            "block": min(terms.batch_size, BLOCK_EVENTS_MAX),
            "max_crashes": terms.policy.crashes_max,
        }
