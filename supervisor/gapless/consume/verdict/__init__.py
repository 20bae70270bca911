"""What a failure means: policies, wishes of a handler, patience. Pure."""
