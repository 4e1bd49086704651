"""Programs of the benchmark over TLS: certificates for its daemons, a token for its programs."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from groupcomm_client.credentials import CA_VARIABLE, TOKEN_VARIABLE
from groupcomm_tools.certificates import issue, make_authority
from groupcommd.token_file import add_token

HOST: Final = "127.0.0.1"
_DAYS: Final = 1.0


@contextmanager
def over_tls(folder: Path) -> Iterator[str]:
    """Let programs that are started now know daemons with these settings, for their `[clients]`."""
    ca, _ = make_authority(folder, _DAYS)
    certificate, key = issue(folder, "daemon", [HOST], _DAYS)
    tokens = folder / "bench.tokens"
    told = {CA_VARIABLE: str(ca), TOKEN_VARIABLE: add_token(tokens, "bench")}
    before = {name: os.environ.get(name) for name in told}
    os.environ.update(told)
    try:
        yield (
            f'tls = {{address = "{HOST}:0", certificate = "{certificate}", key = "{key}"}}\n'
            f'tokens = "{tokens}"\n'
        )
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
