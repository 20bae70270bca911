"""What `migrate` does for the shop."""
