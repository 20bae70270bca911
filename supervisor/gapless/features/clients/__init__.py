"""Ordered groups without a supervisor: clients in any language."""
