"""Leases: which worker has a partition, until when, and at which epoch (I7, I8).

The database is the coordinator: a plan is written by any member that notices a change, under the
group's row lock (sql/lease/functions/lease/plan.sql). Times are the database's. `member.py` is the
supervisor's side, `hold.py` the worker's. Only the fence in consumer_offsets guards data; leases
and advisory locks make hand-overs fast, and let one handler run at a time.
"""
