from dataclasses import dataclass, field
KINDS = {}
@dataclass
class Figure:
    title: str
def figures(*a): ...
