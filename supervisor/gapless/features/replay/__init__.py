"""Replays: a handler over a range of a topic, beside all groups."""
