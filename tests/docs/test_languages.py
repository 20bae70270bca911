"""The programs of docs/use/clients.md: JavaScript's runs where node is, all their SQL is prepared."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from psycopg import Connection
from psycopg.conninfo import conninfo_to_dict

from docs.blocks import ROOT, blocks_of
from gapless.log.sequence import sequence
from gapless.log.topics import ensure_topic

PAGE = ROOT / "docs" / "use" / "clients.md"
_STATEMENT = re.compile(r'["`]((?:select|insert) [^"`]*)["`]')
_PLAY = """
import { place, work, close } from "./shop.mjs";
const id = await place("AA", 5);
let failed = null;
try { await place("BB", null); } catch (error) { failed = error.code; }
const sent = [];
let attempts = 0;
const send = async (client, mail) => {
  if (attempts++ === 0) throw new Error("the post office is closed");
  await client.query("insert into sent (address) values ($1)", [mail.to]);
  sent.push(mail.to);
};
const answers = [await work(send), await work(send), await work(send)];
await close();
console.log(JSON.stringify({ id, failed, sent, answers }));
"""


def program(language: str) -> str:
    (found,) = [block.text for block in blocks_of(PAGE) if block.language == language]
    return found


def environment(dsn: str) -> dict[str, str]:
    """The database as libpq's variables: node-postgres reads no keywords and values."""
    names = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "dbname": "PGDATABASE"}
    parts = conninfo_to_dict(dsn)
    return {names[key]: str(value) for key, value in parts.items() if key in names}


@pytest.fixture
def shop(conn: Connection) -> None:
    for topic in ("orders", "mails"):
        ensure_topic(conn, topic, partitions=1)
    conn.execute("select gapless.create_group('letters', 'mails', 'earliest', mode => 'queue')")
    conn.execute("create table orders (customer text, total int not null)")
    conn.execute("create table sent (address text)")


@pytest.mark.parametrize("language", ["js", "go"])
def test_the_statements(conn: Connection, shop: None, language: str) -> None:
    """They name what is there, with arguments that fit."""
    found = _STATEMENT.findall(program(language))
    assert len(found) == 5
    for number, statement in enumerate(found):
        conn.execute(f"prepare of_{language}_{number} as {statement}".encode())


def test_the_javascript(dsn: str, conn: Connection, shop: None, tmp_path: Path) -> None:
    """One order and its event, none of the one that failed; a mail is sent at the second attempt."""
    modules = Path(os.environ.get("GAPLESS_NODE_MODULES", "/nowhere"))
    if not shutil.which("node") or not (modules / "pg").is_dir():
        pytest.skip("node and its pg are not installed: GAPLESS_NODE_MODULES names their folder")
    (tmp_path / "shop.mjs").write_text(program("js"))
    (tmp_path / "play.mjs").write_text(_PLAY)
    (tmp_path / "node_modules").symlink_to(modules)
    for address in ("ann", "bob"):
        conn.execute("select gapless.publish('mails', %s)", [json.dumps({"to": address})])
    sequence(conn)
    done = subprocess.run(
        ["node", "play.mjs"],
        cwd=tmp_path,
        env=os.environ | environment(dsn),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["failed"] == "23502"
    assert said["answers"] == [True, True, False], "the first waits for its delay"
    assert said["sent"] == ["bob"]
    sequence(conn)
    assert conn.execute("select customer from orders").fetchall() == [("AA",)]
    published = conn.execute("select key, transaction_id from gapless.read('orders', 0, 1, 9)")
    assert [(key, str(each)) for key, each in published] == [("AA", said["id"])]
    states = conn.execute("select state from gapless.queue_jobs order by c_offset").fetchall()
    assert states[0][0] == "ENQUEUED"
    assert conn.execute("select address from sent").fetchall() == [("bob",)]
