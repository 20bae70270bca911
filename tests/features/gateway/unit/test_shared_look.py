"""A look that fails for several callers."""

import asyncio

from gapless.errors import UnreachableError
from gapless.features.gateway.sessions import Sessions
from gapless.features.gateway.shared_look import SharedLooks


def test_each_caller_of_a_failed_look_has_an_error_of_its_own() -> None:
    """One object would collect the tracebacks and notes of all of them."""

    async def fail() -> list[BaseException]:
        sessions = Sessions("host=/nowhere", sessions=1, connect_timeout_s=1)
        looks = SharedLooks(sessions)
        found = await asyncio.gather(*(looks.newest(10) for _ in range(3)), return_exceptions=True)
        sessions.close()
        return [each for each in found if isinstance(each, BaseException)]

    errors = asyncio.run(fail())
    assert len({id(each) for each in errors}) == 3
    assert {(type(each), str(each)) for each in errors} == {(UnreachableError, str(errors[0]))}
    errors[0].add_note("mine")
    assert not hasattr(errors[1], "__notes__")
