"""What a client says is of its unit and of its own membership alone: neighbours stay as they are."""

from features.clients.calls import GROUP, Clients, refused


def redrive(clients: Clients, *offsets: int) -> None:
    for offset in offsets:
        clients.conn.execute("select gapless.redrive_letter(%s, 'orders', 0, %s)", [GROUP, offset])


def test_a_commit_renews_its_own_deadline_alone(wide: Clients) -> None:
    wide.publish("a", "b", "c", "d")
    one, other = wide.join(), wide.join()
    found = one.poll() or one.poll()
    wide.conn.execute("update gapless.member set expires_at = expires_at - interval '30 min'")
    members = "select member_id::text, beat, expires_at from gapless.member"
    before = {row.member_id: row for row in wide.rows(members)}
    assert one.commit(found[0].partition_id, found[0].last_offset + 1)
    after = {row.member_id: row for row in wide.rows(members)}
    assert after[one.member_id].expires_at > before[one.member_id].expires_at
    assert after[other.member_id] == before[other.member_id]


def test_of_two_redriven_units_in_hand_one_ends(clients: Clients) -> None:
    clients.publish("a", "b")
    one = clients.join()
    assert one.offsets() == [1, 2]
    for offset in (1, 2):
        one.reject(0, offset)
    redrive(clients, 1, 2)
    assert [(each.c_offset, each.redriven) for each in one.poll()] == [(1, True), (2, True)]
    one.commit_redriven(0, 2)
    states = "select first_offset, state from gapless.dead_letter order by 1"
    assert clients.rows(states) == [(1, "waiting"), (2, "redriven")]
    with refused("GL409"):
        one.commit_redriven(0, 3)
    one.commit_redriven(0, 1)


def test_who_leaves_with_a_redriven_unit_in_hand_did_not_die(clients: Clients) -> None:
    clients.publish("a")
    one = clients.join()
    one.poll()
    one.reject(0, 1)
    redrive(clients, 1)
    assert one.offsets() == [1]
    crashes = "select crashes, epoch from gapless.dead_letter"
    assert clients.rows(crashes)[0].crashes == 1
    assert one.leave()
    assert clients.rows(crashes) == [(0, None)]
