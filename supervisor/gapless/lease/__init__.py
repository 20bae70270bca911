"""Who works on which partition, until when, at which epoch (I7, I8).

The database is the coordinator: a plan is written by whichever member noticed a change, under the
group's row lock (sql/lease/functions/lease/plan.sql). Times are the database's. `member.py` is the
supervisor's side, `hold.py` the worker's. What guards the data is the fence in consumer_offsets
alone; leases and advisory locks make hand-overs fast and handlers run one at a time.
"""
