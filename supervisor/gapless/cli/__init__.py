"""The command line: one file a command; parse, call, print.

A command is a module with HELP (one line), `add_arguments(parser)`, `main(args) -> int`, and if it
likes EXAMPLES; with TAKES_THE_REST, `args.rest` is what stood behind `--`. Data goes to stdout,
everything else to stderr. Modules that are slow to import are imported inside functions, so that
`gapless --help` answers at once.
"""
