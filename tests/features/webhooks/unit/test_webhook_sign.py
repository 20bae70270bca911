"""Signatures: the vectors of the specification, two secrets at a time, secrets by reference."""

from pathlib import Path

import pytest
from standardwebhooks.webhooks import Webhook

from gapless.features.webhooks.sign import SecretError, headers_for, message_id, read_secrets

# https://github.com/standard-webhooks/standard-webhooks: the secret, id, time and payload of its tests.
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ID, AT_S, BODY = "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}'
SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_the_vector_of_the_specification(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK", SECRET)
    assert headers_for(ID, BODY, read_secrets(["env:HOOK"]), now_s=AT_S + 0.9) == {
        "webhook-id": ID,
        "webhook-timestamp": str(AT_S),
        "webhook-signature": SIGNATURE,
    }


def test_two_secrets_sign_while_one_replaces_the_other(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
    (tmp_path / "new").write_text(f" {other}\n")
    monkeypatch.setenv("OLD", SECRET.removeprefix("whsec_"))
    keys = read_secrets([f"file:{tmp_path / 'new'}", "env:OLD"])
    headers = headers_for(ID, BODY, keys, now_s=AT_S)
    new, old = headers["webhook-signature"].split(" ")
    assert old == SIGNATURE
    assert new != old
    # Each receiver, whichever it knows, believes it.
    import standardwebhooks.webhooks as spec

    for secret in (SECRET, other):
        receiver = Webhook(secret)
        monkeypatch.setattr(spec, "timedelta", lambda **_: spec.datetime.now() - spec.datetime.min)
        signed = receiver.sign(
            ID, spec.datetime.fromtimestamp(AT_S, spec.timezone.utc), BODY.decode()
        )
        assert signed in headers["webhook-signature"].split(" ")


def test_any_json_is_signed_as_it_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK", SECRET)
    body = '{"name": "Zoë 😀", "nul": "\\u0000"}'.encode()
    headers = headers_for(ID, body, read_secrets(["env:HOOK"]), now_s=AT_S)
    assert headers["webhook-signature"] != SIGNATURE


@pytest.mark.parametrize(
    "text", ["x", "whsec_", "whsec_c2hvcnQ=", "whsec_%%%", "whsec_" + "A" * 200, "pässword"]
)
def test_a_secret_that_is_none_is_not_told(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("HOOK", text)
    with pytest.raises(SecretError, match="secret env:HOOK: it has to be whsec_") as found:
        read_secrets(["env:HOOK"])
    assert len(text) < 8 or text not in str(found.value)


def test_a_secret_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SecretError, match="secret env:NOBODY: the variable NOBODY is not set"):
        read_secrets(["env:NOBODY"])
    with pytest.raises(SecretError, match="No such file"):
        read_secrets([f"file:{tmp_path}/none"])
    (tmp_path / "binary").write_bytes(b"\xff" * 40)
    with pytest.raises(SecretError, match="it is no text"):
        read_secrets([f"file:{tmp_path}/binary"])


def test_no_dot_parts_what_is_signed() -> None:
    assert message_id("webhook-shop/orders/3@17") == "webhook-shop/orders/3@17"
    assert message_id("webhook-shop/a.b/3@17~2") == "webhook-shop/a%2Eb/3@17~2"
    assert message_id("a%2Eb") == "a%252Eb"
