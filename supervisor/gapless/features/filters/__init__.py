"""Filters and subscriptions: a group takes only some events of its topics."""
