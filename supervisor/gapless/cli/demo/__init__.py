"""`gapless demo`: a week of flights through the log, under two supervisors, checked at the end.

`stage.py` sets up and clears, `producers.py` publishes, `play.py` runs it all, `report.py` prints.
"""
