"""JSON lines into a topic: read them, cut them into transactions, publish them."""
