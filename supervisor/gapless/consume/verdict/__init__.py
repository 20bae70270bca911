"""The meaning of a failure: policies, wishes of a handler, patience. Pure."""
