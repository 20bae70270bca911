"""The classic tables, for programs that watch them."""
