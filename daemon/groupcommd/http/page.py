"""The page: one file with its style and script; it loads events and metrics of its daemon only."""

import base64
import hashlib
import re
from importlib.resources import files
from typing import Final

PAGE: Final = (files("groupcommd.http") / "page.html").read_bytes()


def _hash(element: bytes) -> str:
    """Return the hash by which a policy allows the one inline element of this name."""
    (text,) = re.findall(rb"<%b>(.*?)</%b>" % (element, element), PAGE, re.DOTALL)
    return base64.b64encode(hashlib.sha256(text).digest()).decode()


PAGE_POLICY: Final = (
    f"default-src 'none'; script-src 'sha256-{_hash(b'script')}'; style-src"
    f" 'sha256-{_hash(b'style')}'; connect-src 'self'; img-src data:; base-uri 'none'; form-action"
    " 'none'; frame-ancestors 'none'"
).encode()
"""The policy: only scripts of the page run in it, whatever the names that it shows."""
