"""Events become a gapless log: publish, sequence, read, topics (I1 to I5)."""
