"""What pyproject.toml cannot say of the package: its description, and where it is published from.

The description is README.md, whose links work only beside the other files.

An index of packages shows the description alone. There a link to another file of the project would
lead nowhere, so only its text stays; links to other places stay as they are. Addresses of the
project are those of the repository that builds a release, which the build service tells.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"\[([^][]+)\]\((?!https?://)[^)\s]+\)")


class Description(MetadataHookInterface):
    """Hatchling's hook that sets the fields ``readme`` and ``urls``."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the fields."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": description(text)}
        metadata["urls"] = urls(os.environ)


def urls(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the addresses of the project; none where no build service tells a repository."""
    if "GITHUB_REPOSITORY" not in environment:
        return {}
    home = f"{environment['GITHUB_SERVER_URL']}/{environment['GITHUB_REPOSITORY']}"
    return {
        "Source": home,
        "Documentation": f"{home}/blob/main/docs/index.md",
        "Changes": f"{home}/blob/main/docs/changes.md",
        "Issues": f"{home}/issues",
    }


def description(readme: str) -> str:
    """Return the text without links to other files of the project."""
    return LINK.sub(r"\1", readme)
