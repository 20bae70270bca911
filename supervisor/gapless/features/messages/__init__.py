"""Direct messages: requests, and their replies."""
