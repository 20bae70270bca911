"""The command line: one file a command; parse, call, print.

What a command does is in gapless.ops, or below it. A command is a line in commands.py and a module
with `add_arguments(parser)`, `main(args) -> int`, and if it likes EXAMPLES; with TAKES_THE_REST,
`args.rest` is what stood behind `--`. Data goes to stdout, everything else to stderr.
"""
