"""What gapless says of itself to other systems: the table of metrics, counters, spans.

names.py is the table. meter.py counts in memory that the processes of a supervisor share; nothing
is counted in a process that was given no meter. spans.py speaks to OpenTelemetry, if the program
has imported it. This package knows no database, and nobody above it.
"""
