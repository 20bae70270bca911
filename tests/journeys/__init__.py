"""`bin/journeys`: how far a reader of the code travels, measured on a real server."""
