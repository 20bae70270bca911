"""Which types a payload can be of, by which library it is decoded, and what is said of what does not fit."""

from dataclasses import dataclass
from typing import Any

import msgspec
import pydantic
import pytest

from gapless.errors import UsageError
from gapless.log.fields import NotOfTypeError
from gapless.log.typed import decoder_of


@dataclass
class Order:
    total: int


class Struct(msgspec.Struct):
    total: int


class Model(pydantic.BaseModel):
    total: int
    made_by: str = pydantic.Field("x", alias="madeBy")


@pydantic.dataclasses.dataclass
class Strict:
    total: int
    made_by: str = pydantic.Field("x", alias="madeBy")


class Old:
    """A model of a pydantic that knows no names beside aliases."""

    @staticmethod
    def model_validate_json(raw: bytes) -> bytes:
        if raw == b"bad":
            raise ValueError("of its own")
        return raw + b"!"


class Called:
    def __call__(self, raw: bytes) -> bytes:
        return raw + b"?"


class Callable_:  # noqa: N801 - as others
    """One that validates by something without code of Python."""

    model_validate_json = Called()


BOTH: dict[str, Any] = {
    "model": Model,
    "dataclass": Strict,
    "adapter": pydantic.TypeAdapter(Model),
}


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("name", ["made_by", "madeBy"])
def test_a_field_may_have_its_name_or_its_alias(kind: str, name: str) -> None:
    found = decoder_of(BOTH[kind])(b'{"total": 5, "%s": "y"}' % name.encode())
    assert (found.total, found.made_by) == (5, "y")


@pytest.mark.parametrize(
    ("wanted", "made"),
    [
        (Order, Order(5)),
        (Struct, Struct(5)),
        (msgspec.json.Decoder(Struct), Struct(5)),
        (Old, b'{"total": 5}!'),
        (Callable_, b'{"total": 5}?'),
    ],
)
def test_each_library_decodes_what_is_its_own(wanted: Any, made: Any) -> None:
    found = decoder_of(wanted)(b'{"total": 5}')
    assert found == made
    assert type(found) is type(made)


@pytest.mark.parametrize(
    ("wanted", "named"),
    [
        (int, "int"),
        (Order(1), "Order(total=1)"),
        (Struct(1), "Struct(total=1)"),
        (msgspec.json.Encoder(), None),
        (b"", "b''"),
        (Order | None, None),
        (5, "5"),
    ],
)
def test_what_is_no_type_of_a_payload_is_named(wanted: Any, named: str | None) -> None:
    with pytest.raises(UsageError) as refused:
        decoder_of(wanted)
    assert str(refused.value) == (
        f"payload={named or repr(wanted)}: a dataclass, a model of pydantic, a struct of msgspec, "
        "a TypeAdapter or a Decoder of these"
    )


NOT = "Input should be a valid"


@pytest.mark.parametrize(
    ("wanted", "raw", "path", "why"),
    [
        (Model, b'{"total": []}', "$.total", f"{NOT} integer"),
        (Model, b'{"total": [], "made_by": 1}', "$.total", f"{NOT} integer (and 1 more)"),
        (Model, b'{"madeBy": 1}', "$.total", "Field required (and 1 more)"),
        (Struct, b"{}", "$", "Object missing required field `total`"),
        (Struct, b'{"total": "a"}', "$.total", "Expected `int`, got `str`"),
        (Struct, b"{", "$", "Input data was truncated"),
        (
            msgspec.json.Decoder(list[Struct]),
            b'[{"total": ""}]',
            "$[0].total",
            "Expected `int`, got `str`",
        ),
        (
            pydantic.TypeAdapter(list[dict[str, int]]),
            b'[{}, {"a": []}]',
            "$[1].a",
            f"{NOT} integer",
        ),
        (Order, b"{}", "$.total", "is missing"),
    ],
)
def test_it_is_said_which_field_does_not_fit(wanted: Any, raw: bytes, path: str, why: str) -> None:
    with pytest.raises(NotOfTypeError) as refused:
        decoder_of(wanted)(raw)
    assert (refused.value.path, refused.value.why) == (path, why)


def test_an_error_of_a_model_that_tells_no_fields_is_as_it_was() -> None:
    with pytest.raises(ValueError, match=r"^of its own$"):
        decoder_of(Old)(b"bad")
