"""What is noted of a captured table, which triggers it has and lacks, and what is left of it, beside its twin."""

import pytest

from features.capture.ledger import ANOTHER, OPERATIONS, PARTED, CaptureBook, triggers

MORE = PARTED + 'create schema "My shop"; create table "My shop".box (id int primary key);'
PARTS = ("p", "p1", '"P 2"', "p21")


pytestmark = pytest.mark.usefixtures("twin")


CAPTURE = "select gapless.capture('public.box', 'outbox', %s, %s::text[])"
PLAIN = "captured public.box outbox by - of - changed"
AUDIT = 'audit {} outbox {{"table": "public.box"}}'


@pytest.mark.parametrize(
    ("key", "columns", "noted"),
    [
        (None, None, PLAIN),
        (
            "{id}/",
            ["c", "a"],
            'captured public.box outbox by {id}/ {"",id,/} {1} of {c,a} {4,2} changed',
        ),
    ],
)
def test_a_table_is_captured_once(
    ledger: CaptureBook, key: str | None, columns: list[str] | None, noted: str
) -> None:
    changed = ledger.diff(CAPTURE, key, columns)
    wanted = [AUDIT.format("capture"), noted, *triggers("box", "public.box")]
    assert changed == sorted(f"+ {each}" for each in wanted)
    found = "select max(capture_id) from gapless.captured"
    assert ledger.value("select gapless.capture_of('box'::regclass)") == ledger.value(found)
    assert ledger.refused(CAPTURE, key, columns) == (
        "GL409", "public.box is captured already: gapless capture remove public.box ends that",
    )  # fmt: skip


def test_a_table_is_captured_with_its_partitions(ledger: CaptureBook) -> None:
    changed = ledger.diff("select gapless.capture('public.p', 'outbox')")
    wanted = triggers("p", "public.p")
    for part in PARTS[1:]:
        wanted += triggers(part, "public.p", place="partition")
    assert [each[2:] for each in changed if "+ trigger" in each] == sorted(wanted)


# What was done to triggers, and how many are put, and what that changes of lines about triggers.
MENDED: list[tuple[str, int, list[str]]] = [
    ("", 0, []),
    ("alter table public.box enable always trigger gapless_capture_update", 0, []),
    ("alter table public.box disable trigger gapless_capture_update", 1,
     ["+ trigger box update O public.box table", "- trigger box update D public.box table"]),
    ("alter table public.box enable replica trigger gapless_capture_insert", 1,
     ["+ trigger box insert O public.box table", "- trigger box insert R public.box table"]),
    ("drop trigger gapless_capture_delete on public.box", 1, ["+ trigger box delete O public.box table"]),
    ("alter table public.box disable trigger user", 4,
     [f"{sign} trigger box {each} {on} public.box table" for each in OPERATIONS for sign, on in ("+O", "-D")]),
    (ANOTHER.format("4711", "table"), 1, ["+ trigger box delete O public.box table", "- trigger box delete O 4711 table"]),
    (ANOTHER.format("{}", "partition"), 1,
     ["+ trigger box delete O public.box table", "- trigger box delete O public.box partition"]),
    (ANOTHER.format("{}", "table").replace("gapless_capture_delete after", "gapless_capture_more after"), 1,
     ["+ trigger box delete O public.box table"]),
]  # fmt: skip
MEND = "select gapless.mend_capture('public.box')"


@pytest.mark.parametrize(("done", "count", "changed"), MENDED)
def test_triggers_are_put_where_they_lack(
    ledger: CaptureBook, done: str, count: int, changed: list[str]
) -> None:
    number = ledger.capture()
    if done:
        ledger.run(done.replace("{}", str(number)))
    with ledger.conn.transaction(force_rollback=True):
        assert ledger.value(MEND) == count
    assert ledger.diff(MEND) == sorted(changed)
    assert ledger.value(MEND) == 0
    assert ledger.diff(MEND) == []


def test_a_trigger_of_a_part_says_so(ledger: CaptureBook) -> None:
    ledger.capture("public.p")
    ledger.run("drop trigger gapless_capture_delete on public.p1")
    ledger.run('alter table public."P 2" disable trigger gapless_capture_insert')
    ledger.run("create table public.p3 partition of public.p for values from (20) to (30)")
    said = "select gapless.mend_capture('public.p')"
    assert ledger.diff(said) == sorted([
        "+ trigger p1 delete O public.p partition",
        '+ trigger "P 2" insert O public.p partition',
        '- trigger "P 2" insert D public.p partition',
        *(f"+ {each}" for each in triggers("p3", "public.p", place="partition")),
    ])  # fmt: skip
    assert ledger.value(said) == 0


def test_two_captures_of_a_table_at_once(ledger: CaptureBook) -> None:
    """One of them comes too late, when the triggers are there already."""
    ledger.capture()
    for each in OPERATIONS:
        said = ledger.refused(
            "select gapless.place_trigger('public', 'box', %s, false, '1', 'table')", each
        )
        assert said == (
            "GL409",
            f"public.box has got a trigger gapless_capture_{each} just now: gapless capture lists the captured tables",
        )


def test_what_is_not_captured_cannot_be_mended(ledger: CaptureBook) -> None:
    for table in ("public.box", "public.nope"):
        said = ledger.refused("select gapless.mend_capture(%s)", table)
        assert said == (
            "GL404",
            f'"{table}" is not captured: gapless capture lists the captured tables',
        )


RELEASE = "select gapless.release_capture(%s)"


def test_a_capture_ends_alone(ledger: CaptureBook) -> None:
    ledger.capture("public.p")
    ledger.capture()
    assert ledger.diff(RELEASE, "public.box") == sorted(
        ["+ " + AUDIT.format("release-capture"), *(f"- {each}" for each in [PLAIN, *triggers("box", "public.box")])]
    )  # fmt: skip
    assert ledger.diff(RELEASE, "public.box") == []
    assert ledger.value(RELEASE, "public.box") is False
    assert ledger.value(RELEASE, "public.twin") is True
    changed = ledger.diff(RELEASE, "public.p")
    assert len([each for each in changed if "- trigger" in each]) == 16


def test_a_captured_table_that_was_dropped_is_named_as_it_was(ledger: CaptureBook) -> None:
    for name in ("third", "box"):
        ledger.run(f"create table if not exists public.{name} (id int primary key)")
        ledger.capture(f"public.{name}")
    ledger.run("drop table public.box, public.third")
    nothing = 'there is no table "public.{}": name it as SQL does, schema and all; gapless capture lists them'
    for name in ("bo", "nope"):
        assert ledger.refused(RELEASE, f"public.{name}") == ("GL404", nothing.format(name))
    assert ledger.diff(RELEASE, "public.box") == [
        "+ " + AUDIT.format("release-capture"),
        f"- {PLAIN} elsewhere",
    ]
    assert ledger.refused(RELEASE, "public.box") == ("GL404", nothing.format("box"))
    assert ledger.value(RELEASE, "public.third") is True


def test_a_capture_is_forgotten_without_its_triggers(ledger: CaptureBook) -> None:
    number = ledger.capture()
    forget = "select gapless.forget_capture(%s)"
    assert ledger.refused(forget, number) == (
        "GL409", f"capture {number} has triggers: gapless capture remove drops them, then forgets it",
    )  # fmt: skip
    assert ledger.diff(forget, 4711) == []
    for each in OPERATIONS:
        ledger.run(f"drop trigger gapless_capture_{each} on public.box")
    assert ledger.diff(forget, number) == ["+ " + AUDIT.format("release-capture"), f"- {PLAIN}"]


BY = "insert into gapless.captured (table_name, table_id, topic_id, old) values (%s, coalesce(%s::text::regclass::oid, 0), 1, 'all') returning capture_id"
# Captures by name and number that are noted, and which of them (counted from 0) is that of box.
NOTED: dict[str, tuple[list[tuple[str, str | None]], int | None]] = {
    "none": ([], None),
    "another's": ([("public.twin", "twin"), ("public.p", "p")], None),
    "by number": ([("public.p", "p"), ("public.old", "box"), ("public.twin", "twin")], 1),
    "by name": ([("public.p", "p"), ("public.box", None), ("public.twin", "twin")], 1),
    "by number first": ([("public.old", "box"), ("public.box", None)], 0),
    "by number first of all": ([("public.box", None), ("public.old", "box")], 1),
    "the newest": ([("public.box", "box"), ("public.box", "box")], 1),
    "not of another schema": ([('"My shop".box', None)], None),
}
TRIGGER = "create trigger {} after truncate on public.{} for each statement execute function gapless.capture_rows('{}', '{}')"


@pytest.mark.parametrize("name", NOTED)
def test_which_capture_a_table_has(ledger: CaptureBook, name: str) -> None:
    noted, which = NOTED[name]
    numbers = [ledger.value(BY, named, table) for named, table in noted]
    query = "select gapless.capture_of('box'::regclass)"
    wanted = None if which is None else numbers[which]
    assert ledger.value(query) == wanted
    ledger.run(TRIGGER.format("t0", "box", 4711, "table"))  # of one that nobody knows
    assert ledger.value(query) == wanted
    if which is None:
        return
    ledger.run(TRIGGER.format("t1", "p", wanted, "partition"))
    ledger.run(TRIGGER.format("t1", "box", wanted, "partition"))
    assert ledger.value(query) == wanted, "a trigger of a part is none of its own"
    ledger.run(TRIGGER.format("t2", "p", wanted, "table"))
    assert ledger.value(query) != wanted, "its triggers are on another table"
    ledger.run(TRIGGER.format("t2", "box", wanted, "table"))
    assert ledger.value(query) == wanted


def test_triggers_of_captures_and_what_they_carry(ledger: CaptureBook) -> None:
    ledger.run("select gapless.release_capture('public.twin')")
    ledger.run(
        "create function public.capture_rows() returns trigger language plpgsql as 'begin return null; end'"
    )
    make = (
        "create trigger {} after truncate on public.box for each statement execute function {}({})"
    )
    for n, (function, words) in enumerate([
        ("gapless.capture_rows", "'12', 'table'"), ("gapless.capture_rows", "'123456789', 'partition'"),
        ("gapless.capture_rows", "'1234567890', 'partitions'"), ("gapless.capture_rows", "'x'"),
        ("gapless.capture_rows", ""), ("public.capture_rows", "'13', 'table'"),
    ]):  # fmt: skip
        ledger.run(make.format(f"t{n}", function, words))
    ledger.run(
        "create trigger t6 after insert on public.box for each statement execute function gapless.attach_rows('9')"
    )
    ledger.run("alter table public.box disable trigger t0")
    found = ledger.rows(
        "select tgname::text, capture_id, on_partition, tgenabled::text, tgrelid::regclass::text"
        " from gapless.capture_triggers() order by 1"
    )
    assert found == [
        ("t0", 12, False, "D", "box"),
        ("t1", 123456789, True, "O", "box"),
        ("t2", None, False, "O", "box"),
        ("t3", None, False, "O", "box"),
        ("t4", None, False, "O", "box"),
    ]
