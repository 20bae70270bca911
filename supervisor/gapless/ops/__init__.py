"""What an operator does, as functions: records in, records out; nothing is printed."""
