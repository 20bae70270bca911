"""A standby of a cluster, and its promotion."""

import subprocess
from collections.abc import Mapping
from typing import Any

import psycopg
from psycopg import Connection
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from gapless.features.server.postgres.account import server_account
from gapless.features.server.postgres.cluster import Cluster
from support.servers import until

NAME = "standby"  # its application_name on the primary


def copy_of(old: Cluster, options: Mapping[str, str] | None = None) -> Cluster:
    """Return a standby like `old`, which does not run; options: settings of the standby."""
    folder = old.data_dir.parent / "standby"
    folder.mkdir()
    subprocess.run(["cp", "-a", old.data_dir, folder / "data"], check=True)
    signal = folder / "data" / "standby.signal"
    signal.touch()
    server_account().give(folder)
    server_account().give(signal)
    return Cluster(old.bindir, folder / "data", options, throwaway=True)


def follow(old: Cluster, options: Mapping[str, str] | None = None) -> Cluster:
    """Return a standby that follows `old`; neither runs before, both do after.

    From then on `old` answers a COMMIT only when the standby has it, too.
    """
    parts = conninfo_to_dict(old.dsn())
    primary = make_conninfo(
        host=parts["host"], port=parts["port"], user=parts["user"], application_name=NAME
    )
    standby = copy_of(old, {**(options or {}), "primary_conninfo": primary})
    old.start()
    standby.start()
    with psycopg.connect(old.dsn(), autocommit=True) as conn:
        conn.execute(f"alter system set synchronous_standby_names = '{NAME}'".encode())
        conn.execute("select pg_reload_conf()")
        assert until(lambda: _is_synchronous(conn)), "it does not follow"
    return standby


def cut_off(old: Cluster, standby: Cluster) -> None:
    """Stop a standby that follows: `old` stops waiting for it, and it lacks all later commits."""
    with psycopg.connect(old.dsn(), autocommit=True) as conn:
        conn.execute("alter system set synchronous_standby_names = ''")
        conn.execute("select pg_reload_conf()")
    standby.stop("fast")


def promote(standby: Cluster) -> None:
    """Make a running standby the primary; return when it accepts writes."""
    with psycopg.connect(standby.dsn(), autocommit=True) as conn:
        assert conn.execute("select pg_is_in_recovery()").fetchone() == (True,)
        assert conn.execute("select pg_promote()").fetchone() == (True,)
        assert until(lambda: conn.execute("select pg_is_in_recovery()").fetchone() == (False,))


def _is_synchronous(conn: Connection[Any]) -> bool:
    row = conn.execute(
        "select sync_state from pg_stat_replication where application_name = %s", [NAME]
    ).fetchone()
    return row == ("sync",)
