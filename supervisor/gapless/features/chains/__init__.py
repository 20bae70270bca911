"""Chains: what came of a transaction, and what led to it."""
