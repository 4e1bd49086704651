"""The description of the package: README.md, whose links work only beside the other files.

An index of packages shows the description alone. There a link to another file of the project would
lead nowhere, so only its text stays; links to other places stay as they are.
"""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"\[([^][]+)\]\((?!https?://)[^)\s]+\)")


class Description(MetadataHookInterface):
    """Hatchling's hook that sets the field ``readme``."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the field."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": description(text)}


def description(readme: str) -> str:
    """Return the text without links to other files of the project."""
    return LINK.sub(r"\1", readme)
