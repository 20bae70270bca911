"""Many partitions: a hint, a refusal before anything is changed, and the way out of it."""

import pytest

from support.fleet import Fleet


@pytest.mark.long
def test_more_workers_than_the_server_admits_are_refused_at_the_start(fleet: Fleet) -> None:
    most = fleet.value("select current_setting('max_connections')::int")
    a = fleet.start("a", total_partitions=most)
    assert a.ended() != 0
    assert a.logged(f"{most} + 2 = {most + 2} sessions, but the server admits")
    assert fleet.value("select count(*) from gapless.member") == 0
    assert fleet.value("select count(*) from gapless.topic where name = 't'") == 0, "no change"


@pytest.mark.long
@pytest.mark.parametrize("share", [64, "auto"])
def test_several_for_a_worker_fit_in(fleet: Fleet, share: int | str) -> None:
    most = fleet.value("select current_setting('max_connections')::int")
    a = fleet.start("a", total_partitions=most, partitions_per_worker=share)
    fleet.until_owners(a=most, timeout_s=40)
    assert not a.logged("partitionsPerWorker: auto lets")
    fleet.publish({}, {})
    fleet.until_handled()


def test_a_hint_above_sixteen_processes(fleet: Fleet) -> None:
    a = fleet.start("a", total_partitions=17)
    fleet.until_owners(a=17)
    assert a.log().count("17 partitions, each with a process and a session of its own") == 1
