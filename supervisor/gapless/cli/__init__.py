"""The command line: one file a command; parse, call, print.

What a command does is in gapless.ops, or below it. A command is a line in commands.py, which says
what its module has. Data goes to stdout, everything else to stderr.
"""
