"""A week of New York flights: the data, the events, the handlers and the truth of the demo.

A package, so that it imports the same from a checkout (`flights`, with examples/ on the path) and
from an installed wheel (`gapless._flights`). That is why its modules import each other relatively.
"""
