"""The demo's handlers under one name, in a wheel and in a checkout.

gapless run gapless.cli.demo.handlers
"""

from __future__ import annotations

from gapless.cli.demo.flights import flights

_handlers = flights("handlers")
punctuality = _handlers.punctuality
positions = _handlers.positions
