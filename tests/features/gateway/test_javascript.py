"""The JavaScript of docs/use/gateway.md, by node: publish, and follow the topic."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from psycopg import Connection

from docs.blocks import ROOT, blocks_of
from support.gateways import Client

PAGE = ROOT / "docs" / "use" / "gateway.md"
# What a browser has and node has not: addresses without a host, and (before node 22) EventSource.
_BROWSER = """
class EventSource {
  constructor(path) { this.read(ORIGIN + path); }
  async read(address) {
    const answer = await fetch(address);
    if (answer.headers.get("content-type") !== "text/event-stream; charset=utf-8") process.exit(3);
    let text = "";
    for await (const part of answer.body) {
      text += Buffer.from(part).toString();
      const messages = text.split("\\n\\n");
      text = messages.pop();
      for (const each of messages) {
        const data = each.split("\\n").filter((line) => line.startsWith("data: "));
        if (data.length) this.onmessage({ data: data.map((line) => line.slice(6)).join("\\n") });
        else if (each.startsWith("retry:")) publish();
      }
    }
  }
}
"""


def test_the_javascript(gateway: Client, conn: Connection, tmp_path: Path) -> None:
    """What it publishes comes to the stream that it follows."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    programs = [block.text for block in blocks_of(PAGE) if block.language == "js"]
    publish, follow = (each for each in programs if "/members" not in each)  # test_node_members
    publish = publish.replace("http://127.0.0.1:8080", gateway.url)
    follow = follow.replace("console.log(", "done(")
    program = tmp_path / "play.mjs"
    program.write_text(
        f"const ORIGIN = {json.dumps(gateway.url)};\n{_BROWSER}\n"
        f"let said;\nasync function publish() {{\n{publish}\nsaid = {{ transaction_id, places }};\n}}\n"
        "async function done(payload) {\n"
        "  while (!said) await new Promise((next) => setTimeout(next, 5));\n"
        "  console.log(JSON.stringify({ payload, ...said }));\n  process.exit(0);\n}\n"
        f"{follow}"
    )
    done = subprocess.run([node, program], capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["payload"] == {"total": 9}
    assert [place["events"] for place in said["places"]] == [1]
    stored = "select key, event_type, dedupe_key from gapless.outbox_message_t left join gapless.dedupe using (topic_id)"
    assert conn.execute(stored).fetchall() == [("CC", "order.created", "order-18")]
    places = gateway.get(
        "/v1/topics/orders/events", params={"partition": said["places"][0]["partition"]}
    )
    assert [each["transaction_id"] for each in places.json()["events"]] == [said["transaction_id"]]
