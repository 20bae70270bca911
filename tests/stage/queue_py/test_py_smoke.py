from gapless.testing import drain
from stage.queue_py import app

STUB = """
create or replace function gapless.queue_aside(_g text, _t int, out due boolean, out wait_s float8) language sql as $$ select false, null::float8 $$;
create or replace function gapless.note_death(_l int, _a bigint, _b bigint) returns text language sql as $$ select 'noted' $$;
"""


def test_drain(runs):
    runs.conn.execute(STUB)
    numbers = runs.publish(count=25)
    done = drain(runs.dsn, app.once)
    print(done)
    assert runs.done() == dict.fromkeys(numbers, 1)
    numbers += runs.publish(
        {}, {"do": "reject"}, {"do": "fail"}, {}, {"do": "commit"}, {"do": "skip"}, {}
    )
    done = drain(runs.dsn, app.once)
    print(done)
    print(runs.dead("once"))
    print(runs.conn.execute("select * from gapless.queue_floor").fetchall())
    print(runs.conn.execute("select * from gapless.queue_range").fetchall())
    assert len(runs.dead("once")) == 3


def test_run(runs):
    runs.conn.execute(STUB)
    numbers = runs.publish(count=25)
    run = runs.start("once", "ordered", workers=3)
    runs.until_done(numbers)
    more = runs.publish(count=200)
    runs.until_done(more)
    assert len(runs.workers(run)) == 3
    assert runs.stop(run) == 0
