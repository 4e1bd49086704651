"""The essential sentence of errors of Spark, without the surrounding lines of Java."""

import re
from typing import Final

_TRACEBACK: Final = "Traceback (most recent call last):"
_PYTHON_CLASS: Final = re.compile(r"^(?:\w+\.)*\w+(?: \(.*?\))?: ")
_JAVA_CLASS: Final = re.compile(r"^(?:Caused by: |: )?(?:[\w$]+\.)+[\w$]+: ")
_CONDITION: Final = re.compile(r"^\[[A-Z0-9_.]+\] ")
_STATE: Final = re.compile(r" SQLSTATE: \w+$")


def plain(error: BaseException) -> str:
    """Return the sentence that helps; for an error in Python code on a worker, the error of that
    code.

    Args:
        error: an error that pyspark has raised.
    """
    text = str(error).strip() or type(error).__name__
    if _TRACEBACK in text:
        return _last_raised(text)
    lines = text.splitlines()
    if lines[0].startswith("An error occurred while calling") and len(lines) > 1:
        lines = lines[1:]
    causes = [_bare(line) for line in lines if line.startswith("Caused by: ")]
    first = _bare(lines[0])
    return f"{first} {causes[-1]}" if causes and causes[-1] not in first else first


def _bare(line: str) -> str:
    """Return a line without the names of Java's class and of Spark's condition."""
    return _STATE.sub("", _CONDITION.sub("", _JAVA_CLASS.sub("", line.strip())))


def _last_raised(text: str) -> str:
    """Return the error that was raised last: the line after the last traceback."""
    lines = text[text.rindex(_TRACEBACK) :].splitlines()[1:]
    raised = next((line for line in lines if line and line[0] not in " \t"), lines[0])
    return _PYTHON_CLASS.sub("", raised.strip(), count=1)
