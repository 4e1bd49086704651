"""The encoding of values: the parts of stamps, and the records that datagrams are.

A value is a byte that tells its kind, then: an integer in zigzag form, 7 bits a byte, lowest first;
or a length and the bytes of a text; or a count and that many values; or the number of a record and
the values of its fields. A value has one encoding. Bytes from outside can decode to these kinds
only, whoever sends them.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from groupcomm.clocks.vector import VectorClock
from groupcomm.errors import BadDatagram, LocalProtocolError

_NONE, _INTEGER, _TEXT, _BYTES, _TUPLE, _LIST, _DICT, _CLOCK, _RECORD = range(9)

INTEGER_BYTES: Final = 10
"""The bytes of the longest integer: 64 bits and a sign."""

MAX_INTEGER: Final = 2**64 - 1
MAX_DEPTH: Final = 12
"""The deepest nesting of values; the deepest stamp has five levels."""

Check: TypeAlias = Callable[[Any], bool]
"""Returns whether a field of a record may have this value."""


class Record(NamedTuple):
    """A named tuple that has an encoding.

    Attributes:
        type: the class.
        checks: a check for each of its fields.
    """

    type: type[Any]
    checks: tuple[Check, ...]


def is_a(*types: type) -> Check:
    """Return a check for a value of one of these types, not of a subclass."""
    return lambda value: type(value) in types


def all_are(check: Check) -> Check:
    """Return a check for a tuple of such values."""
    return lambda value: type(value) is tuple and all(map(check, value))


def count(value: Any) -> bool:
    """Return whether a value is an integer that is not negative."""
    return type(value) is int and 0 <= value <= MAX_INTEGER


class Codec:
    """An encoder and decoder of values.

    Args:
        records: the records besides the kinds above; a record's place is its number on the wire.
    """

    def __init__(self, records: Sequence[Record]) -> None:
        self._records = records
        self._numbers = {record.type: number for number, record in enumerate(records)}

    def encode(self, value: Any) -> bytes:
        """Return the bytes of a value.

        Raises:
            LocalProtocolError: the value, or a part of it, is of a kind that has no encoding.
        """
        out = bytearray()
        self._write(out, value)
        return bytes(out)

    def decode_value_untrusted(self, data: bytes) -> Any:
        """Return the value that all of these bytes stand for.

        Raises:
            BadDatagram: the bytes are no value. No other exception, whatever the bytes.
        """
        reader = _Reader(data)
        value = self._read(reader, MAX_DEPTH)
        if reader.at != len(data):
            raise BadDatagram("long", f"{len(data) - reader.at} bytes follow a value")
        return value

    # ---- to bytes ----

    def _write(self, out: bytearray, value: Any) -> None:
        number = self._numbers.get(type(value))
        if number is not None:
            out += bytes((_RECORD, number))
            for field in value:
                self._write(out, field)
            return
        match value:
            case None:
                out.append(_NONE)
            case int():
                out.append(_INTEGER)
                _write_integer(out, value)
            case str():
                _write_bytes(out, _TEXT, value.encode())
            case bytes():
                _write_bytes(out, _BYTES, value)
            case tuple() | list():
                self._write_all(out, _LIST if isinstance(value, list) else _TUPLE, value)
            case dict() | VectorClock():
                kind = _DICT if isinstance(value, dict) else _CLOCK
                self._write_all(out, kind, [part for item in value.items() for part in item])
            case _:
                raise LocalProtocolError(
                    f"values of type {type(value).__name__} cannot be sent: they have no encoding"
                )

    def _write_all(self, out: bytearray, kind: int, values: Sequence[Any]) -> None:
        out.append(kind)
        _write_count(out, len(values))
        for value in values:
            self._write(out, value)

    # ---- from bytes ----

    def _read(self, reader: "_Reader", depth: int) -> Any:
        if not depth:
            raise BadDatagram("deep", f"values are nested more than {MAX_DEPTH} deep")
        kind = reader.byte()
        if kind == _NONE:
            return None
        if kind == _INTEGER:
            return reader.integer()
        if kind == _TEXT:
            return reader.text()
        if kind == _BYTES:
            return reader.bytes()
        if kind == _RECORD:
            return self._read_record(reader, depth)
        if kind > _RECORD:
            raise BadDatagram("kind", str(kind))
        values = [self._read(reader, depth - 1) for _ in range(reader.count())]
        if kind == _TUPLE:
            return tuple(values)
        return values if kind == _LIST else _mapping(kind, values)

    def _read_record(self, reader: "_Reader", depth: int) -> Any:
        number = reader.byte()
        if number >= len(self._records):
            raise BadDatagram("record", str(number))
        record = self._records[number]
        values = [self._read(reader, depth - 1) for _ in record.checks]
        if not all(check(value) for check, value in zip(record.checks, values, strict=True)):
            raise BadDatagram("field", record.type.__name__)
        return record.type(*values)


def _mapping(kind: int, values: list[Any]) -> dict[Any, Any] | VectorClock[Any]:
    """Return a dict or a vector clock of keys and values in turn; no key comes twice."""
    if len(values) % 2:
        raise BadDatagram("odd", "a mapping has a key without a value")
    keys, found = values[::2], values[1::2]
    try:
        if len(set(keys)) < len(keys):
            raise BadDatagram("key", "a mapping has a key twice")
    except TypeError:
        raise BadDatagram("key", "a mapping has a key that can be changed") from None
    if kind == _DICT:
        return dict(zip(keys, found, strict=True))
    if not all(type(key) is str for key in keys) or not all(map(count, found)):
        raise BadDatagram("clock", "a vector clock has a key that is not a name")
    clock: VectorClock[Any] = VectorClock()
    for key, value in zip(keys, found, strict=True):
        clock.add(key, value)
    return clock


def _write_bytes(out: bytearray, kind: int, data: bytes) -> None:
    out.append(kind)
    _write_count(out, len(data))
    out += data


def _write_integer(out: bytearray, value: int) -> None:
    if abs(value) > MAX_INTEGER:
        raise LocalProtocolError(f"{value} is too large for a stamp; 64 bits are the most")
    _write_count(out, value * 2 if value >= 0 else -value * 2 - 1)


def _write_count(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


class _Reader:
    """A reader of bytes from the front.

    Attributes:
        at: the number of bytes that were read.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def byte(self) -> int:
        if self.at >= len(self._data):
            raise BadDatagram("short")
        self.at += 1
        return self._data[self.at - 1]

    def _number(self) -> int:
        value = 0
        for place in range(INTEGER_BYTES):
            byte = self.byte()
            value |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                if byte == 0 and place:
                    raise BadDatagram("integer", "an integer is longer than it need be")
                return value
        raise BadDatagram("integer", "an integer is longer than 64 bits")

    def integer(self) -> int:
        number = self._number()
        value = -(number + 1) // 2 if number % 2 else number // 2
        if abs(value) > MAX_INTEGER:
            raise BadDatagram("integer", "an integer is longer than 64 bits")
        return value

    def count(self) -> int:
        """Return the number of bytes or values that follow; each takes one byte at least."""
        number = self._number()
        if number > len(self._data) - self.at:
            raise BadDatagram("short", f"{number} should follow")
        return number

    def bytes(self) -> bytes:
        length = self.count()
        self.at += length
        return self._data[self.at - length : self.at]

    def text(self) -> str:
        try:
            return self.bytes().decode()
        except UnicodeDecodeError:
            raise BadDatagram("text", "no UTF-8") from None
