"""Events for later, and schedules."""
