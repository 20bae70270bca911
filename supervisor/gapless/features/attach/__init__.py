"""Outboxes that exist, as topics."""
