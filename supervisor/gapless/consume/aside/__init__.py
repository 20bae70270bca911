"""Units that were set aside: recorded, parked behind one another, handled again."""
