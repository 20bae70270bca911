"""`gapless gateway` as a process, and a client of HTTP that talks to it."""

from support.gateways import gateway, open_gateway, orders, serve

__all__ = ["gateway", "open_gateway", "orders", "serve"]
