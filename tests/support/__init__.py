"""What tests of several stages share: looking at the log, groups by hand, other clients, counters."""
