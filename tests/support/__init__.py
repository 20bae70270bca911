"""Tools that tests of several rooms share: views of the log, groups by hand, other clients, counters."""
