"""Benchmarks of gapless against the designs one would pick instead, measured in the same run.

One file per benchmark, each with `run(setup) -> list[Figure]`; docs/benchmarks.md has the method.
"""
