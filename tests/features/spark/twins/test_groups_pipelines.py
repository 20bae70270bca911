"""Pipelines: where they are, how a batch ends and a sink takes one, of this pipeline alone."""

from collections.abc import Iterator
from typing import Any

import pytest

from gapless.db.connect import connect
from support.twins import SEEKS_NO_MORE, Twins

# Of each two are the same.
PIPELINES = """
select gapless.register_pipeline(p, '{orders,other}', 'earliest', 'there') from unnest('{crm,erp}'::text[]) p;
update gapless.pipeline set batch = 4, events = 10, error = 'no', epoch = 2, bad = 5, planned = '{"a": 1}', files = '["f"]';
update gapless.topic set archive = case name when 'orders' then 'crm' else 'erp' end;
delete from gapless.audit;
"""
TOKENS = "update gapless.consumer_offsets set token = gen_random_uuid()"
AT_COMMIT = "set constraints all immediate"
NOTHING_PLANNED = "update gapless.pipeline set planned = null, files = null"


@pytest.fixture(scope="module")
def shared(module_dsn: str) -> Iterator[Twins]:
    with connect(module_dsn, role="test") as conn:
        twins = Twins(conn)
        conn.execute("select gapless.register_pipeline('kept', '{orders}', 'earliest', 'there')")
        yield twins


@pytest.fixture
def pipelines(twins: Twins) -> Twins:
    """Where an owner left its token, too, a move is none of a batch that ends too early."""
    twins.conn.execute(PIPELINES)
    twins.conn.execute(TOKENS)
    return twins


def end(twins: Twins, batch: int, starts: list[int], name: str = "crm", epoch: int = 2) -> str:
    ids = twins.topic_ids
    places = f"array[{ids['orders']},{ids['orders']},{ids['other']}], '{{0,1,1}}'"
    return f"select gapless.end_batch('{name}', {batch}, {places}, array{starts}::bigint[], '{{3,4,7}}', 5, {epoch})"


def test_a_batch_ends_with_its_place(pipelines: Twins) -> None:
    changed = pipelines.changes(end(pipelines, 4, [1, 1, 1]))
    assert changed == {
        "pipeline crm": {
            "batch": (4, 5), "events": (10, 15), "error": ("no", None),
            "planned": ('{"a": 1}', None), "files": ('["f"]', None),
        },
        **{
            f"consumer_offsets pipeline.crm {topic} {n}": {"next_offset": (1, upto)}
            for topic, n, upto in (("orders", 0, 3), ("orders", 1, 4), ("other", 1, 7))
        },
    }  # fmt: skip
    pipelines.conn.execute(AT_COMMIT)


@pytest.mark.parametrize(
    ("name", "batch", "starts", "said"),
    [
        ("crm", 3, [1, 1, 1], "pipeline crm is not at batch 3 any more: it runs elsewhere, too"),
        ("crm", 5, [1, 1, 1], "pipeline crm is not at batch 5 any more: it runs elsewhere, too"),
        ("no", 4, [1, 1, 1], "pipeline no is not at batch 4 any more: it runs elsewhere, too"),
        ("crm", 4, [1, 2, 1], "pipeline crm has been moved to other offsets meanwhile"),
        ("crm", 4, [1, 1, 2], "pipeline crm has been moved to other offsets meanwhile"),
    ],
)
def test_a_batch_of_another_place(
    pipelines: Twins, name: str, batch: int, starts: list[int], said: str
) -> None:
    assert pipelines.refused(end(pipelines, batch, starts, name)) == ("GL409", said)


@pytest.mark.parametrize("epoch", [1, 3])
def test_a_batch_of_a_run_that_is_not_the_newest(pipelines: Twins, epoch: int) -> None:
    said = "pipeline crm is not at batch 4 any more: it runs elsewhere, too"
    ended = end(pipelines, 4, [1, 1, 1], epoch=epoch)
    assert pipelines.refused(ended) == ("GL409", said)
    pipelines.conn.execute(NOTHING_PLANNED)
    planned = f"""select gapless.plan_files('crm', 4, '{{}}', '["g"]', {epoch})"""
    assert pipelines.changes(planned) == {}


def test_a_run_begins_with_an_epoch_of_its_own(pipelines: Twins) -> None:
    changed = pipelines.changes("select gapless.take_pipeline('crm', 'here:1')")
    assert changed == {"pipeline crm": {"epoch": (2, 3), "runner": (None, "here:1")}}
    assert pipelines.value("select gapless.take_pipeline('crm', 'here:2')") == 4
    assert pipelines.value("select gapless.take_pipeline('no', 'here:2')") is None
    old = "update gapless.pipeline set beat_ts = '2020-01-01Z'"
    pipelines.conn.execute(old)
    pipelines.conn.execute("select gapless.beat_pipelines('{crm,erp}', '{4,3}')")
    beaten = "select array_agg(name) from gapless.pipeline where beat_ts > '2020-01-01Z'"
    assert pipelines.value(beaten) == ["crm"], "of another epoch it is no sign of life"


@pytest.mark.parametrize("is_dropped", [True, False])
def test_bad_events_are_counted_and_set_aside(pipelines: Twins, is_dropped: bool) -> None:
    ids = pipelines.topic_ids
    places = f"array[{ids['orders']},{ids['orders']},{ids['other']}], '{{0,0,1}}', '{{3,9,2}}'"
    call = f"select gapless.set_bad_aside('crm', {places}, '{{a,b,c}}', {is_dropped})"
    changed = pipelines.changes(call)
    assert changed.pop("pipeline crm") == {"bad": (5, 8)}
    letters = {name: row for name, row in changed.items() if name.startswith("dead_letter ")}
    assert list(letters) == ([] if is_dropped else [
        "dead_letter pipeline.crm orders 0 3", "dead_letter pipeline.crm orders 0 9",
        "dead_letter pipeline.crm other 1 2",
    ])  # fmt: skip
    for row, reason in zip(letters.values(), "abc", strict=False):
        assert (row["state"], row["events"]) == ((None, "dead"), (None, 1))
        assert (row["reason"], row["attempts"]) == ((None, reason), (None, 1))
    assert len(changed) == 2 * len(letters), "each has its event with it"
    if not is_dropped:
        ids_of = "select array_agg(message_id order by topic_id, c_offset) from gapless.{}"
        events = pipelines.value(ids_of.format("dead_letter_event where group_id = 'pipeline.crm'"))
        read = (
            "select array_agg(s.message_ids[u.o - s.base_offset + 1] order by u.t, u.o)"
            " from unnest(array[{0},{0},{1}], '{{0,0,1}}'::int[], '{{3,9,2}}'::int[]) u (t, p, o)"
            " join gapless.log_segment s on (s.topic_id, s.partition_id) = (u.t, u.p)"
            " and u.o between s.base_offset and s.last_offset"
        )
        assert events == pipelines.value(read.format(ids["orders"], ids["other"]))


def test_a_bad_event_that_is_not_in_the_log_is_refused(pipelines: Twins) -> None:
    call = f"select gapless.set_bad_aside('crm', '{{{pipelines.topic_ids['orders']}}}', '{{0}}', '{{99}}', '{{why}}', false)"
    assert "of 1 events to set aside" in str(pipelines.refused(call))


def test_a_place_that_is_new_to_a_pipeline_is_made(pipelines: Twins) -> None:
    pipelines.conn.execute(
        f"delete from gapless.consumer_offsets where {pipelines.here('pipeline.crm')}"
    )
    changed = pipelines.changes(end(pipelines, 4, [1, 1, 1]))
    assert changed["consumer_offsets pipeline.crm orders 1"]["next_offset"] == (None, 4)


def test_which_batches_a_sink_has(twins: Twins) -> None:
    """Of the newest hundred, and of this sink: another one has batch 105."""
    for sink, batch in (("there", 3), ("there", 4), ("else", 3), ("else", 105)):
        assert twins.value("select gapless.fence_batch(%s, %s, 7)", sink, batch) is True
    fence = "select gapless.fence_batch('there', {}, 9)"
    for batch in (4, 3, 2):
        assert twins.changes(fence.format(batch)) == {}
        assert twins.value(fence.format(batch)) is False
    changed = twins.changes(fence.format(104))
    assert {name: row["events"] for name, row in changed.items()} == {
        "sink_batch there 3": (7, None), "sink_batch there 104": (None, 9),
    }  # fmt: skip


def test_the_files_of_a_batch_are_written_down_once(pipelines: Twins) -> None:
    plan = """select gapless.plan_files('crm', {}, '{{"b": 2}}', '["g"]', 2)"""
    assert pipelines.changes(plan.format(4)) == {}, "one is planned"
    pipelines.conn.execute(NOTHING_PLANNED)
    assert pipelines.changes(plan.format(3)) == {}
    assert pipelines.value(plan.format(3)) is None
    changed = pipelines.changes(plan.format(4))
    assert changed == {"pipeline crm": {"planned": (None, '{"b": 2}'), "files": (None, '["g"]')}}
    pipelines.conn.execute(NOTHING_PLANNED)
    assert pipelines.value(plan.format(4)) is True


@pytest.mark.parametrize("error", ["why", None])
def test_what_stops_a_pipeline(pipelines: Twins, error: str | None) -> None:
    """And since when: of several errors in a row, since the first."""
    changed = pipelines.changes("select gapless.note_pipeline('crm', %s)", [error])
    assert changed == {"pipeline crm": {"error": ("no", error)}}
    since = "select failing_ts from gapless.pipeline where name = 'crm'"
    first = pipelines.value(since)
    assert (first is None) == (error is None)
    pipelines.conn.execute("select gapless.note_pipeline('crm', 'another')")
    if error is not None:
        assert pipelines.value(since) == first
    ended = pipelines.changes(end(pipelines, 4, [1, 1, 1]))["pipeline crm"]
    assert ended["error"] == ("another", None)
    assert pipelines.value(since) is None


@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_a_pipeline_is_registered(twins: Twins, start: str) -> None:
    call = f"select gapless.register_pipeline('crm', '{{orders,other}}', '{start}', 'there')"
    twins.conn.execute(call.replace("'crm'", "'erp'"))
    changed = twins.changes(call)
    ends = {"orders": [10, 9, 9], "other": [9, 9, 9]} if start == "latest" else {}
    place = {t: {str(n): ends.get(t, [1] * 3)[n] for n in range(3)} for t in ("orders", "other")}
    assert twins.value("select begun from gapless.pipeline where name = 'crm'") == place
    assert twins.value("select gapless.pipeline_place('crm')") == place
    assert changed.pop("pipeline crm")["target"] == (None, "there")
    assert len(changed) == 2 * (1 + 2 * 3)
    assert all(" pipeline.crm " in name for name in changed)
    twins.seek(5)
    assert twins.changes(call) == {}, "again"
    updates = "select pg_stat_get_xact_tuples_updated('gapless.pipeline'::regclass)"
    before = twins.value(updates)
    twins.conn.execute(call)
    assert twins.value(updates) == before
    changed = twins.changes(call.replace("'there'", "'elsewhere'"))
    assert changed == {"pipeline crm": {"target": ("there", "elsewhere")}}


@pytest.mark.parametrize(
    ("batch", "begun", "noted"), [(0, None, True), (1, None, False), (0, "1", False)]
)
def test_where_it_began_is_noted_before_its_first_batch(
    pipelines: Twins, batch: int, begun: Any, noted: bool
) -> None:
    pipelines.conn.execute(
        "update gapless.pipeline set batch = %s, begun = %s::jsonb", [batch, begun]
    )
    changed = pipelines.changes(
        "select gapless.register_pipeline('crm', '{orders}', 'earliest', 'there')"
    )
    assert list(changed) == (["pipeline crm"] if noted else [])


@pytest.mark.parametrize("goal", ["earliest", "latest"])
def test_a_pipeline_is_put_to_an_end_of_the_log(pipelines: Twins, goal: str) -> None:
    pipelines.conn.execute(NOTHING_PLANNED)
    pipelines.conn.execute(
        "insert into gapless.log_start select topic_id, 1, 3, now() from gapless.topic"
    )
    pipelines.seek(4)
    changed = pipelines.changes(f"select gapless.reset_pipeline('crm', '{goal}')")
    ends = (
        {"orders": [10, 9, 9], "other": [9, 9, 9]}
        if goal == "latest"
        else {t: [1, 3, 1] for t in ("orders", "other")}
    )
    pipeline = changed.pop("pipeline crm")
    assert (pipeline["batch"], pipeline["error"]) == ((4, 5), ("no", None))
    for topic in ends:
        audited = changed.pop(f"audit seek pipeline.crm {topic} None")
        assert audited["detail"] == (None, f'{{"to": "{goal}"}}')
    changed = {name: row for name, row in changed.items() if not name.startswith("guard_keys ")}
    assert changed == {
        f"consumer_offsets pipeline.crm {topic} {n}": {"next_offset": (4, offset)}
        for topic, offsets in ends.items()
        for n, offset in enumerate(offsets)
    }
    place = {t: {str(n): offsets[n] for n in range(3)} for t, offsets in ends.items()}
    assert pipelines.value("select begun from gapless.pipeline where name = 'crm'") == place
    pipelines.conn.execute(AT_COMMIT)


def test_a_pipeline_whose_files_are_on_their_way_stays(pipelines: Twins) -> None:
    """Another one has none."""
    pipelines.conn.execute(
        "update gapless.pipeline set planned = null, files = null where name <> 'crm'"
    )
    said = "pipeline crm has a batch whose files are on their way: run it with --once first"
    assert pipelines.refused("select gapless.reset_pipeline('crm', 'latest')") == ("GL409", said)


def test_retention_waits_for_a_pipeline_that_is_put_to_an_end(
    twins: Twins, module_dsn: str
) -> None:
    """Of its topics nothing is dropped until the transaction is over."""
    free = "select name from gapless.topic order by 1 for no key update skip locked"
    twins.conn.execute("select gapless.reset_pipeline('kept', 'earliest')")
    with connect(module_dsn, role="test") as conn, conn.transaction(force_rollback=True):
        assert conn.execute(free).fetchall() == [("other",)]


def test_a_pipeline_is_forgotten(pipelines: Twins) -> None:
    """What it was is audited for each of its topics, and for the one that waited for it."""
    made = {
        topic: pipelines.value("select gapless.create_topic(%s, 1)", topic)
        for topic in ("away", "mixed")
    }
    pipelines.conn.execute(
        "update gapless.topic set archive = case name when 'mixed' then 'crm' end where name <> 'orders';"
        "select gapless.create_group('mail', 'away')"
    )
    pipelines.topic_ids.update(made)
    changed = pipelines.changes("select gapless.remove_pipeline('crm')")
    for topic in made:
        del pipelines.topic_ids[topic]
    for topic in ("mixed", "orders", "other"):
        detail = changed.pop(f"audit remove-pipeline pipeline.crm {topic} None")["detail"][1]
        said = '"archive": ' + ("false" if topic == "other" else "true")
        for each in (said, '"batch": 4', '"files": ["f"]', '"events": 10', '"target": "there"'):
            assert each in detail
    for topic in ("mixed", "orders"):
        assert changed.pop(f"topic {topic}") == {"archive": ("crm", None)}
    assert changed.pop("pipeline crm")["target"] == ("there", None)
    assert all(" pipeline.crm " in name for name in changed)
    assert len(changed) == 2 * (1 + 3 * 3)


def test_who_keeps_its_own_position(twins: Twins) -> None:
    """It only goes on; another reader is where it was."""
    for group in ("reader", "other.reader"):
        for topic in ("orders", "other"):
            twins.value(
                f"select gapless.record_position('{group}', '{topic}', '{{0,1,2}}', '{{4,4,4}}')"
            )
    twins.conn.execute(TOKENS)
    twins.conn.execute(SEEKS_NO_MORE)
    twins.conn.execute(f"delete from gapless.consumer_offsets where {twins.here('reader', 0)}")
    changed = twins.changes(
        "select gapless.record_position('reader', 'orders', '{0,1,2,3}', '{5,3,5,4}')"
    )
    assert {name: row["next_offset"] for name, row in changed.items()} == {
        "consumer_offsets reader orders 0": (None, 5), "consumer_offsets reader orders 2": (4, 5),
        "consumer_offsets reader orders 3": (None, 4),
    }  # fmt: skip
    updates = "select pg_stat_get_xact_tuples_updated('gapless.consumer_offsets'::regclass)"
    before = twins.value(updates)
    twins.conn.execute(
        "select gapless.record_position('reader', 'orders', '{0,1,2,3}', '{5,4,5,4}')"
    )
    assert twins.value(updates) == before, "it is there"
    twins.conn.execute(AT_COMMIT)


def test_one_position_at_a_time(twins: Twins, module_dsn: str) -> None:
    """The group is locked until it is written; others, and this one elsewhere, go on."""
    twins.conn.execute("select gapless.record_position('billing', 'orders', '{0}', '{1}')")
    free = (
        "select g.group_id, t.name from gapless.consumer_group g join gapless.topic t using (topic_id)"
        " where g.group_id in ('billing', 'mail') for key share of g skip locked"
    )
    with connect(module_dsn, role="test") as conn, conn.transaction(force_rollback=True):
        rows = conn.execute(free).fetchall()
    assert sorted(rows) == [("billing", "other"), ("mail", "orders"), ("mail", "other")]


@pytest.mark.parametrize(
    ("group", "topic"), [("reader", "orders"), ("reader", "other"), ("mail", "orders")]
)
def test_a_position_of_a_group_that_is_handled(twins: Twins, group: str, topic: str) -> None:
    """Here it has had an owner; elsewhere makes no difference."""
    for each in ("orders", "other"):
        twins.value(f"select gapless.record_position('reader', '{each}', '{{0}}', '{{4}}')")
    twins.conn.execute(
        "update gapless.lease set epoch = 1 where group_id = %s and topic_id = gapless.topic_id(%s) and partition_id = 2",
        [group, topic],
    )
    call = "select gapless.record_position('reader', 'orders', '{0}', '{5}')"
    if (group, topic) == ("reader", "orders"):
        said = 'group "reader" belongs to handlers: give the query a groupId of its own'
        assert twins.refused(call) == ("GL409", said)
    else:
        assert list(twins.changes(call)) == ["consumer_offsets reader orders 0"]
