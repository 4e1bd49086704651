"""Give random bytes to every decoder, guided by coverage: ``make fuzz``.

The first byte of an input chooses the target, the rest is for the target. Inputs with new
coverage are kept in fuzz/corpus, so the next run continues from there; inputs that break a decoder
are written to fuzz/. Options are libFuzzer's: ``-atheris_runs=1000000``, ``-max_total_time=60``, or
the name of a file to try again.

With ``--inputs N`` each decoder gets so many inputs without guidance: see counted.py, and --help.
"""

import atexit
import importlib
import itertools
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[4]
FOLDER = ROOT / "fuzz"


def main() -> None:
    """Fuzz until libFuzzer is content; it ends the process."""
    sys.path.insert(0, str(ROOT))
    if any(option.startswith("--") for option in sys.argv[1:]):
        sys.exit(
            importlib.import_module("tests.verification.campaigns.fuzz.counted").main(sys.argv[1:])
        )
    atheris: Any = importlib.import_module("atheris")  # of the extra [fuzz]; without types
    with atheris.instrument_imports(include=["groupcomm", "groupcommd", "groupcomm_client"]):
        targets = importlib.import_module("tests.verification.campaigns.fuzz.targets")
    seeds = importlib.import_module("tests.verification.campaigns.fuzz.seeds")
    names = sorted(targets.TARGETS)
    corpus = FOLDER / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for name, inputs in seeds.SEEDS.items():
        for count, raw in enumerate(inputs):
            (corpus / f"seed-{name}-{count}").write_bytes(bytes((names.index(name),)) + raw)

    runs, started = itertools.count(), time.monotonic()

    def one_input(data: bytes) -> None:
        next(runs)
        if data:
            targets.run(names[data[0] % len(names)], data[1:])

    def report() -> None:  # libFuzzer itself reports only when its time is up
        count, elapsed = next(runs), time.monotonic() - started
        print(f"{count} runs in {elapsed:.0f} s, {count / elapsed:.0f} per second", flush=True)

    atexit.register(report)
    options = [option for option in sys.argv[1:] if option.startswith("-")]
    files = [option for option in sys.argv[1:] if not option.startswith("-")]
    print(f"{len(names)} targets, {len(list(corpus.iterdir()))} inputs in {corpus}")
    atheris.Setup(
        [
            sys.argv[0],
            "-max_len=2048",
            f"-artifact_prefix={FOLDER}/",
            "-print_final_stats=1",
            *options,
            *(files or [str(corpus)]),
        ],
        one_input,
    )
    atheris.Fuzz()


if __name__ == "__main__":
    main()
