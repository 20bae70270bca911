"""`gapless demo`: a week of flights through the log, under two supervisors, checked at the end.

`stage.py` sets up and clears, `producers.py` publishes, `play.py` runs it all, `report.py` prints,
`kept.py` keeps what is to be kept and says what to do with it; `handlers.py` are those it runs.
"""
