"""Endpoints that are called with the events of a topic: a built-in at-least-once handler.

Needs certifi and httptools: pip install "gapless[webhooks]".
"""
