"""The step of a queue group: workers share each partition, one event is one unit (Q1 to Q4)."""
