"""The app: orders, and who packs them."""
