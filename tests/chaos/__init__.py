"""Faults of every kind against real processes and a real server, and a look at what came of it.

`bin/chaos` runs it; docs/why/reliability.md says what is tested. In the order of a run: stage (server,
proxy, supervisors, producers), nemesis (seeded faults), drain, checker, hygiene, coverage, report.
"""
