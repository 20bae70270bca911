"""The routes of members: what each answers, and who is told to come again how."""

from typing import Any

import httpx
import pytest
from psycopg import Connection

from support.gateways import Client, problem

MEMBERS = "/v1/groups/billing/members"


class Member:
    """A member over HTTP."""

    def __init__(self, gateway: Client, **fields: Any) -> None:
        done = gateway.post(MEMBERS, json={"topic": "orders", "ttl_s": 3600, **fields})
        assert done.status_code == 201, done.text
        self.gateway, self.said = gateway, done.json()
        self.path = f"{MEMBERS}/{self.said['member_id']}"
        self.headers = {"Gapless-Token": self.said["token"]}

    def post(self, verb: str, params: Any = None, **fields: Any) -> httpx.Response:
        return self.gateway.post(
            f"{self.path}/{verb}", json=fields, headers=self.headers, params=params
        )

    def poll(self, **fields: Any) -> list[dict[str, Any]]:
        done = self.post("poll", **fields)
        assert done.status_code == 200, done.text
        return list(done.json()["events"])


@pytest.fixture
def billing(gateway: Client, conn: Connection) -> Client:
    conn.execute("select gapless.create_group('billing', 'orders')")
    return gateway


def test_a_member_joins_polls_commits_and_leaves(billing: Client, conn: Connection) -> None:
    member = Member(billing)
    assert member.poll() == []
    billing.publish("a", 1.10)
    billing.publish({"b": [1]})
    seen = []
    while found := member.poll(max_events=1):
        last = found[-1]
        seen += [each["payload"] for each in found]
        body = {"partition": last["partition"], "next_offset": last["last_offset"] + 1}
        assert member.post("commit", **body).json() == {"moved": True}
        assert member.post("commit", **body).json() == {"moved": False}
    assert len(seen) == 3
    standing = member.post("heartbeat").json()
    assert standing["partitions"] == [0, 1]
    assert standing["problem"] is None
    for _ in range(2):
        done = billing.client.delete(member.path, headers=member.headers)
        assert done.status_code == 204
    assert problem(member.post("poll"), 409)["next"] == "join"


@pytest.mark.long
def test_a_poll_waits_for_an_event(billing: Client) -> None:
    member = Member(billing)
    assert member.poll() == []
    billing.publish("a")
    done = member.post("poll", {"wait": 20})
    assert [each["payload"] for each in done.json()["events"]] == ["a"]


def test_who_comes_late_gets_409_and_is_told_what_to_do(billing: Client, conn: Connection) -> None:
    billing.publish("a")
    member = Member(billing)
    (event,) = member.poll()
    body = {"partition": event["partition"], "next_offset": 2}
    refused = problem(member.post("commit", **{**body, "next_offset": 9}), 409)
    assert "handed out" in refused["detail"]
    assert "next" not in refused
    conn.execute("update gapless.lease set owner = null where owner is not null")
    assert problem(member.post("commit", **body), 409)["next"] == "poll"
    conn.execute(
        "update gapless.member set expires_at = clock_timestamp() - interval '1 s', ttl = '1 ms'"
    )
    late = problem(member.post("commit", **body), 409)
    assert late["next"] == "join"
    assert "join again" in late["detail"]


def test_a_unit_is_rejected_and_redriven(billing: Client, conn: Connection) -> None:
    billing.publish("a")
    member = Member(billing, name="node one")
    (event,) = member.poll()
    place = {"partition": event["partition"], "first_offset": 1}
    assert member.post("reject", **place, reason="no customer").status_code == 204
    conn.execute("select gapless.redrive_letter('billing', 'orders', %s, 1)", [event["partition"]])
    (again,) = member.poll()
    assert again["redriven"] is True
    assert member.post("commit", partition=event["partition"], redriven=1).json() == {"moved": True}


def test_a_token_of_another_member_or_group_is_refused(billing: Client, conn: Connection) -> None:
    conn.execute("select gapless.create_group('other', 'orders')")
    one, two = Member(billing), Member(billing)
    headers = two.headers
    assert billing.post(f"{one.path}/poll", json={}, headers=headers).status_code == 404
    elsewhere = one.path.replace("billing", "other")
    assert billing.post(f"{elsewhere}/poll", json={}, headers=one.headers).status_code == 404
    assert billing.post(f"{one.path}/poll", json={}).status_code == 400
    forged = {"Gapless-Token": one.headers["Gapless-Token"][:-4] + "beef"}
    assert problem(billing.post(f"{one.path}/poll", json={}, headers=forged), 409)["next"] == "join"


BAD: tuple[tuple[str, dict[str, Any]], ...] = (
    ("poll", {"max_events": 0}),
    ("poll", {"partitions": [-1]}),
    ("poll", {"partitions": "0"}),
    ("commit", {}),
    ("commit", {"partition": 0}),
    ("commit", {"partition": 0, "next_offset": 2, "redriven": 1}),
    ("reject", {"partition": 0, "first_offset": 1}),
    ("reject", {"partition": 0, "reason": "x"}),
    ("heartbeat", {"x": 1}),
)


@pytest.mark.long
def test_bad_input_is_a_problem_of_one_line(billing: Client) -> None:
    member = Member(billing)
    for verb, fields in BAD:
        assert problem(member.post(verb, **fields), 400), (verb, fields)
    endless = {"topic": "orders", "ttl_s": 1e300}
    assert billing.post(MEMBERS, json=endless).status_code == 400
