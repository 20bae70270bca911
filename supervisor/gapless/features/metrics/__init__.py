"""Metrics and health of a supervisor over HTTP: a child of its own, with a session of its own.

The supervisor and its other children never wait for it. Their counters are in memory that all of
them share (telemetry); the state of the database is read at a request, at most every 5 s.
"""
