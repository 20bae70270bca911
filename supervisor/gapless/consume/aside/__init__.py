"""Units that were set aside: written down, parked behind, handled again."""
