"""Chains: the consequences of a transaction, and its causes."""
