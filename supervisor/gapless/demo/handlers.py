"""The demo's handlers under one name, in a wheel and in a checkout.

gapless run gapless.demo.handlers
"""

from __future__ import annotations

from gapless.demo.flights import flights

_handlers = flights("handlers")
punctuality = _handlers.punctuality
positions = _handlers.positions
