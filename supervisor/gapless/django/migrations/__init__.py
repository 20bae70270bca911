"""What `migrate` does for the app."""
