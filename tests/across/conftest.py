"""What is about several rooms at once begins with a log."""

from support.logs import sequenced, still

__all__ = ["sequenced", "still"]
