"""What test vectors are made of: families of bytes, each with the code that reads and writes them.

A family has examples (bytes that are accepted, with their fields) and refusals (bytes that are
not, with the reason). The code under test reads the bytes, so no field is written by hand.
"""

from collections.abc import Callable, Sequence
from typing import Any

import attrs
import msgspec

from groupcomm.errors import BadDatagram, SessionError

Fields = dict[str, Any]


@attrs.frozen
class Example:
    """Bytes that are accepted.

    Attributes:
        name: short and unique in its family.
        description: a sentence for the reader of the file.
        raw: the bytes.
    """

    name: str
    description: str
    raw: bytes


@attrs.frozen(kw_only=True)
class Family:
    """Bytes of one sort.

    Attributes:
        file: the file's name, without its ending.
        about: what the bytes are, for the head of the file.
        given: what a reader has to know besides, such as keys.
        read: returns the fields of some bytes and the same encoded again; raises BadDatagram.
        good: the examples.
        bad: bytes that are refused.
    """

    file: str
    about: str
    read: Callable[[bytes], tuple[Fields, bytes]]
    good: Sequence[Example]
    bad: Sequence[Example] = ()
    given: Fields = attrs.field(factory=dict)

    def content(self) -> Fields:
        """Return the content of the file."""
        return {
            "about": self.about,
            "given": plain(self.given),
            "vectors": [self._vector(each) for each in self.good],
            "refused": [
                {
                    "name": each.name,
                    "description": each.description,
                    "reason": self.refusal(each.raw),
                    "bytes": each.raw.hex(),
                }
                for each in self.bad
            ],
        }

    def _vector(self, example: Example) -> Fields:
        fields, again = self.read(example.raw)
        assert again == example.raw, f"{self.file}: {example.name} is encoded in another way"
        return {
            "name": example.name,
            "description": example.description,
            "fields": plain(fields),
            "bytes": example.raw.hex(),
        }

    def refusal(self, raw: bytes) -> str:
        """Return the reason for which these bytes are refused; "" if they are accepted."""
        try:
            self.read(raw)
        except BadDatagram as error:
            return error.reason
        except SessionError as error:
            return str(error.code)
        return ""


def plain(value: Any) -> Any:
    """Return a value as JSON has it: bytes in hexadecimal digits, structures by field."""
    match value:
        case bytes() | memoryview():
            return bytes(value).hex()
        case dict():
            return {key: plain(each) for key, each in value.items()}
        case msgspec.Struct():
            names = [field.name for field in msgspec.structs.fields(value)]
            return {name: plain(getattr(value, name)) for name in names}
        case list() | tuple():
            return [plain(each) for each in value]
        case bool() | str() | None:
            return value
        case int():
            return int(value)
        case _:
            raise TypeError(f"{value!r} has no place in a test vector")


def cut_and_lengthened(name: str, raw: bytes) -> list[Example]:
    """Return two refusals that most layouts have: one byte less, and one more."""
    changed = {"without its last byte": raw[:-1], "with a byte behind it": raw + b"\0"}
    return [Example(f"{name}, {how}", f"{name} {how}.", each) for how, each in changed.items()]
