"""Capture: tables whose changes are published."""
