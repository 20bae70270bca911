"""The step of a queue group: any number of workers share each partition, one event a unit (Q1-Q4)."""
