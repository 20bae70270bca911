"""`gapless gateway` as a process, a client of HTTP that talks to it, and its page in a browser."""

from support.browser import browser, page
from support.filled import filled
from support.gateways import gateway, open_gateway, operated, orders, serve

__all__ = ["browser", "filled", "gateway", "open_gateway", "operated", "orders", "page", "serve"]
