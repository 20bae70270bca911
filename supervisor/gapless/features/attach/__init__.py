"""Existing outbox tables, attached as topics."""
