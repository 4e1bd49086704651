"""Every decoder of bytes from outside, with the required properties of its result.

A target takes any bytes. It may raise the errors in `REFUSALS`; any other exception, AssertionError
included, is a bug.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from groupcomm.errors import BadDatagram, SessionError
from groupcomm_client.end_to_end.frames import BadFrame
from groupcomm_client.filters.roles import CannotUndo
from groupcomm_client.history.channel import BadChannel
from tests.verification.campaigns.fuzz.checks import Target
from tests.verification.campaigns.fuzz.client_targets import CLIENT_TARGETS
from tests.verification.campaigns.fuzz.core_targets import CORE_TARGETS
from tests.verification.campaigns.fuzz.history_targets import HISTORY_TARGETS
from tests.verification.campaigns.fuzz.identity_targets import IDENTITY_TARGETS
from tests.verification.campaigns.fuzz.machine_targets import MACHINE_TARGETS
from tests.verification.campaigns.fuzz.port_targets import PORT_TARGETS
from tests.verification.campaigns.fuzz.spread_targets import SPREAD_TARGETS

REFUSALS: Final = (BadDatagram, SessionError, BadFrame, BadChannel, CannotUndo)

ROOT: Final = Path(__file__).parents[4]
PACKAGES: Final = {
    "groupcomm": "",
    "daemon/groupcommd": "daemon.",
    "clients/groupcomm_client": "client.",
    "clients/groupcomm_tools": "tools.",
    "clients/groupcomm_archive": "archive.",
    "clients/groupcomm_lessons": "lessons.",
    "clients/groupcomm_log": "log.",
    "clients/groupcomm_spark": "spark.",
    "clients/pyspark_groupcomm": "pyspark.",
}
"""The folders with decoders, and the beginning of their targets' names."""

TARGETS: Final[dict[str, Target]] = {
    **CORE_TARGETS,
    **CLIENT_TARGETS,
    **HISTORY_TARGETS,
    **MACHINE_TARGETS,
    **IDENTITY_TARGETS,
    **PORT_TARGETS,
    **SPREAD_TARGETS,
}
"""By name: the decoder ``decode_x_untrusted`` of module m is m.x, and m if it has no x.

Further targets: datagrams with a right checksum, the assembly of messages from their parts,
machines that process frames, and both ports of a daemon as a whole.
"""


def run(name: str, raw: bytes) -> bool:
    """Give these bytes to one target; return whether it accepted them. Raise any bug."""
    try:
        TARGETS[name](raw)
    except REFUSALS:
        return False
    return True


def untrusted() -> Iterator[str]:
    """Yield names of all functions and methods of this project that decode bytes from outside."""
    for package, prefix in PACKAGES.items():
        for path in (ROOT / package).rglob("*.py"):
            text = path.read_text()
            if "_untrusted(" not in text:
                continue
            module = ".".join(path.relative_to(ROOT / package).with_suffix("").parts)
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.FunctionDef) and node.name.endswith("_untrusted"):
                    short = node.name.removesuffix("_untrusted").lstrip("_")
                    short = "" if short == "decode" else "." + short.removeprefix("decode_")
                    yield f"{prefix}{module}{short}"
