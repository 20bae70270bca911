"""Endpoints that are called with the events of a topic: an at-least-once handler that is built in.

Needs certifi and httptools: pip install "gapless[webhooks]".
"""
