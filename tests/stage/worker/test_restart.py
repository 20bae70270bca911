"""The server goes away and comes back: everything goes on by itself, nobody moves, nothing twice."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from signal import SIGKILL

import psycopg
import pytest

from gapless.db.connect import connect
from gapless.db.embedded_binaries import find_binaries
from gapless.db.embedded_cluster import Cluster
from gapless.db.migrate import migrate
from gapless.log.sequence import create_chunks
from stage.worker.fleet import Fleet, Load, until
from stage.worker.ledger import assert_exactly_once, entries, handovers

MEMBERS = "select array_agg(member_id order by 1) from gapless.member"
