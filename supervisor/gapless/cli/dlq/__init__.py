"""The `dlq` command: what was set aside, why, what waits behind it; set it going, or give it up."""
