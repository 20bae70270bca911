"""Schemas of payloads: stored by topic and type, checked where events are published."""
