"""Traces on disk: a file, or a folder with the traces of several processes of one host."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from groupcomm.trace.events import TraceEvent
from groupcomm_tools.traces.reading import TraceError, read_together, read_trace


def trace_events(path: Path) -> Iterator[TraceEvent]:
    """Yield the events of a trace, in the order in which they happened.

    Args:
        path: a file of JSON lines; or a folder, whose ``*.jsonl`` are merged.

    Raises:
        TraceError: a line is broken, or the folder has no traces; the text names the file and the
            line.
        OSError: a file cannot be read.
    """
    with ExitStack() as stack:
        if not path.is_dir():
            yield from read_trace(str(path), stack.enter_context(path.open("rb")))
            return
        found = sorted(path.glob("*.jsonl"))
        if not found:
            raise TraceError(f"{path}: the folder has no traces, whose names end in .jsonl")
        files = {str(file): stack.enter_context(file.open("rb")) for file in found}
        yield from read_together(files)
