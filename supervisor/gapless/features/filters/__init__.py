"""Filters and subscriptions: a group takes some events of its topics."""
