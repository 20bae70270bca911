"""The README for a package index: links that are relative in a checkout become absolute.

hatchling runs this as a metadata hook when it builds a wheel or an sdist, or installs a checkout.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

# ](target) of a link or an image; anchors of the page itself and full addresses do not match.
_LINK = re.compile(r"(?P<image>!?)(?P<text>\[[^\]]*\])\((?!#|[a-z]+:)(?P<target>[^)\s]+)\)")


class Readme(MetadataHookInterface):
    """Set `readme`."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": with_absolute_links(text, metadata["urls"]["Source"]),
        }


def with_absolute_links(text: str, source: str) -> str:
    """Return Markdown whose relative links lead to the files of the repository `source`."""

    def absolute(link: re.Match[str]) -> str:
        kind = "raw" if link["image"] else "blob"
        return f"{link['image']}{link['text']}({source}/{kind}/HEAD/{link['target']})"

    return _LINK.sub(absolute, text)
