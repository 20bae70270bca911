"""The command line: one file a command; parse, call, print.

A command's work is done in gapless.ops, or below it. commands.py lists each command in one line,
and names the parts of its module. Data goes to stdout, everything else to stderr.
"""
