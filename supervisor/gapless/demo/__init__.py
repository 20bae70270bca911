"""`gapless demo`: a week of flights through the log, under two supervisors, checked at the end.

`stage.py` sets up and clears, `producers.py` publishes, `play.py` runs it all, `report.py` prints,
`kept.py` keeps the demo and explains how to continue with it; `handlers.py` has its handlers.
"""
