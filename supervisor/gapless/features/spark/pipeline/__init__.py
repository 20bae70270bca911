"""Pipelines: topics, through the user's transform, into files, a table or another topic, once.

A batch is a fixed range of the log that ends at a consistent cut. Its position is in the database,
as a consumer group's, and moves in the transaction of the batch's effects; there is no checkpoint
that could disagree. Files cannot join that transaction, so they are named by it (files.py).
"""
