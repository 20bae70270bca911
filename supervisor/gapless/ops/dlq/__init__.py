"""Units that were set aside: find them, show one, have them handled again, discard them."""
