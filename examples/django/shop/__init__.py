"""The app: orders, and the handler that packs them."""
