"""What is said of a DSN that is none: never its password."""

import pytest

from gapless.db.connect import complaint_about, connect
from gapless.errors import ConnectError


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://me:s3cret%zz@host/db",
        "host=x password='s3cret",
        "s3cret",
        "postgresql://me:x@host/db?a=s3cret=b",
        "postgresql://me@[s3cret/db",
        "postgresql://me@[::1]s3cret/db",
    ],
)
def test_a_password_is_not_shown(dsn: str) -> None:
    complaint = complaint_about(dsn)
    assert complaint is not None
    assert "s3cret" not in complaint
    with pytest.raises(ConnectError) as caught:
        connect(dsn, role="test")
    assert str(caught.value) == complaint


def test_a_sound_one() -> None:
    assert complaint_about("postgresql://me:s3cret@host/db") is None
    assert complaint_about("") is None
