"""Put a mutant's fault into this process, by name; called in the processes of a theatre only."""

import importlib

from chaos.mutants import python


def mutate(name: str) -> None:
    """Replace what the mutant replaces; "" is the product as it is."""
    for where, make in python.PATCHES.get(name, {}).items():
        module_name, _, attribute = where.partition(":")
        owner: object = importlib.import_module(module_name)
        *path, last = attribute.split(".")
        for each in path:
            owner = getattr(owner, each)
        setattr(owner, last, make(getattr(owner, last)))
