"""Benchmarks of gapless against alternative designs, measured in the same run.

One file per benchmark, each with `run(setup) -> list[Figure]`; the method stands in
docs/why/benchmarks-all.md.
"""
