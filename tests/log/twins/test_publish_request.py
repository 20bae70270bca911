"""Several events as one request with a key: all of them are published, or none is, and the numbers of what waits are told."""

from typing import Any

import pytest

from support.stored import Stored, call, own_id
from support.twins import Twins

REQUEST = (
    "select transaction_id::text, duplicate, scheduled_ids from gapless.publish_request("
    "'orders', 'a', %s, %s::text[], event_types => %s::text[], deliver_ins => %s::text[], keys => %s::text[],"
    " headers => %s::text[], host_ids => %s::text[], user_ids => %s::text[], deliver_ats => %s::text[])"
)


def request(twins: Twins, digest: bytes = b"d", *, count: int, **more: Any) -> Stored:
    names = ("event_types", "deliver_ins", "keys", "headers", "host_ids", "user_ids", "deliver_ats")
    payloads = [str(n) for n in range(count)]
    return call(twins, REQUEST, [digest, payloads, *map(more.get, names)])


@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_request_is_published_once_whatever_number_it_has(twins: Twins, count: int) -> None:
    names = ("keys", "event_types", "host_ids", "user_ids")
    more: dict[str, Any] = {name: [f"{name}{n}" for n in range(count)] for name in names}
    more["headers"] = [f'{{"n": {n}}}' for n in range(count)]
    stored = request(twins, count=count, **more)
    own = own_id(twins)
    assert stored.returned == [(own, False, [])]
    assert stored.waiting == []
    assert stored.events == [
        (
            "orders",
            f"keys{n}",
            f"event_types{n}",
            str(n),
            {"n": n},
            f"host_ids{n}",
            f"user_ids{n}",
            *(None,) * 3,
        )
        for n in range(count)
    ]
    assert stored.keys == {(0, "orders", "a"): (own, stored.ids[0], b"d", 0)}
    again = request(twins, count=count)
    assert again.nothing
    assert again.returned == [(own, True, None)]
    assert twins.refused(REQUEST, [b"e", ["1"], *[None] * 7])[0] == "GL422"


@pytest.mark.parametrize("at", [[], [0], [1], [2], [0, 2], [0, 1, 2]])
def test_the_numbers_of_what_waits_of_a_request(twins: Twins, at: list[int]) -> None:
    stored = request(twins, count=3, deliver_ins=["100 s" if n in at else None for n in range(3)])
    assert stored.returned == [(own_id(twins), False, stored.waiting_ids)]
    assert [row[3] for row in stored.waiting] == [str(n) for n in at]
    assert [row[3] for row in stored.events] == [str(n) for n in range(3) if n not in at]
    again = request(twins, count=3)
    assert (again.nothing, again.returned) == (True, [(own_id(twins), True, None)])


def test_a_request_may_wait_until_a_moment(twins: Twins) -> None:
    soon = str(twins.value("select (now() + interval '300 s')::text"))
    stored = request(twins, count=3, deliver_ats=[soon, None, soon])
    assert [(row[3], row[-1]) for row in stored.waiting] == [("0", 300), ("2", 300)]


@pytest.mark.parametrize("first", [True, False])
def test_a_subscription_of_no_group_is_refused(direct: Twins, first: bool) -> None:
    """Of the first event, and of each other one."""
    subscriptions = "array['s', null]" if first else "array[null, 's']"
    statement = (
        "select gapless.publish_request('orders', 'a', 'x', array['1', '2'],"
        f" to_subscriptions => {subscriptions})"
    )
    why = 'to_subscription "s" is of no group: say to_group, too'
    assert direct.refused(statement) == ("22023", why)
