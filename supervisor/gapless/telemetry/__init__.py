"""Reports of gapless to other systems: the table of metrics, counters, spans.

names.py is the table. meter.py counts in memory that the processes of a supervisor share; a process
without a meter counts nothing. spans.py speaks to OpenTelemetry, if the program has imported it.
This package knows no database, and none of the packages above it.
"""
