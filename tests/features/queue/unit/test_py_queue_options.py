"""What a queue's handler may say, and the sentence for what does not go together."""

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from gapless.consume.terms import agree, require_fit
from gapless.consume.user.handler import Handler, handler
from gapless.errors import UsageError
from gapless.features.replay.plan import replay_terms
from gapless.features.spark.engine import require_ordered
from gapless.settings import Settings
from gapless.worker.plan import make_plan


def once(**options: Any) -> Handler:
    made: Handler = handler(**{"topic": "t", "group": "g", "mode": "queue", **options})(
        lambda unit, conn: None
    )
    return made


def outside(**options: Any) -> Handler:
    said = {"topic": "t", "group": "g", "mode": "queue", "delivery": "at-least-once", **options}
    made: Handler = handler(**said)(lambda unit: None)
    return made


@pytest.mark.parametrize(
    ("made", "configured", "why"),
    [
        (once(concurrency=3), {}, "concurrency is for at-least-once"),
        (once(visibility_s=3), {}, "visibility_s is for at-least-once"),
        (once(), {"on_failure": "block"}, "no order that onFailure block could keep"),
        (once(), {"on_failure": "park-key"}, "no order that onFailure park-key could keep"),
        (once(), {"delivery": "at-least-once"}, "one argument, the unit"),
    ],
)
def test_a_sentence_for_what_is_configured(
    made: Handler, configured: dict[str, Any], why: str
) -> None:
    with pytest.raises(UsageError, match=why):
        require_fit(made, agree(made, Settings(**configured)))


def test_what_it_says_and_what_is_configured() -> None:
    made = outside(topic=["urgent", "t"], visibility_s=timedelta(seconds=2), concurrency=3)
    terms = agree(made, Settings(workers=7, group_by="user", visibility_s=44, concurrency=9))
    require_fit(made, terms)
    assert (terms.topic, terms.topics, terms.mode) == ("urgent", ("urgent", "t"), "queue")
    assert (terms.visibility_s, terms.concurrency, terms.workers) == (2.0, 3, 7)
    assert terms.group_by == "transaction"
    assert agree(outside(), Settings(visibility_s=44)).visibility_s == 44


def test_one_group_is_a_queue_or_keeps_the_order() -> None:
    ordered = handler(topic="other", group="g")(lambda unit, conn: None)
    for both in ([once(), ordered], [ordered, once()]):
        with pytest.raises(UsageError, match=r'group "g" is a queue for .*, and keeps the order'):
            make_plan(Settings(), "", both)


def test_two_handlers_of_one_topic() -> None:
    with pytest.raises(UsageError, match='both serve topic "t" for group "g"'):
        make_plan(Settings(), "", [once(topic=["t", "u"]), once()])


def test_a_plan_knows_each_queue_once() -> None:
    ordered = handler(topic="other", group="o")(lambda unit, conn: None)
    plan = make_plan(Settings(), "", [once(topic=["t", "u"]), ordered])
    assert [(group, terms.topics) for group, _, terms in plan.unleased] == [("g", ("t", "u"))]
    assert set(plan.handlers) == {("g", "t"), ("g", "u"), ("o", "other")}


def test_spark_refuses_a_queue_in_a_sentence() -> None:
    plan = SimpleNamespace(handlers={("g", "t"): once()})
    with pytest.raises(UsageError, match="is a queue handler: Spark runs handlers that keep"):
        require_ordered(plan)  # type: ignore[arg-type]


def test_a_replay_of_a_queue_is_in_the_order_of_the_log() -> None:
    terms = replay_terms(once(topic=["t", "u"]), Settings(), "u")
    assert (terms.topic, terms.topics, terms.mode) == ("u", ("u",), "ordered")


def test_weights_go_with_their_topics() -> None:
    terms = agree(once(topic={"urgent": 8, "t": 1}), Settings())
    assert (terms.topic, terms.topics, terms.weights) == ("urgent", ("urgent", "t"), (8, 1))
    assert agree(once(topic={"t": 5}), Settings()).weights == ()
