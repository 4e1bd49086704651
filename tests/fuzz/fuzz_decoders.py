"""`make fuzz`: search for bytes that break a decoder, guided by the code that they reach.

Arguments are libFuzzer's, for example ``-atheris_runs=1000000`` or ``-max_total_time=60``. A file
named ``crash-...`` holds bytes that broke a decoder; give it as an argument to run it again.
"""

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["groupcomm", "tests.fuzz.targets"]):
    from tests.fuzz import targets
from tests.core.wire.packets import CODECS, KEY

MAX_BYTES = 1500


def write_seeds(folder: Path) -> None:
    """A valid packet of each kind to start from, as it is and sealed."""
    for codec in CODECS:
        example = codec.example.encode(KEY)
        packet = bytes((targets.TARGETS.index(targets.packet),))
        sealed = bytes((targets.TARGETS.index(targets.sealed_packet),)) + bytes(16)
        (folder / f"packet-{codec.kind.name}").write_bytes(packet + example)
        (folder / f"sealed-{codec.kind.name}").write_bytes(sealed + example)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_seeds(Path(folder))
        arguments = [sys.argv[0], f"-max_len={MAX_BYTES}", *sys.argv[1:], folder]
        atheris.Setup(arguments, targets.run)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
