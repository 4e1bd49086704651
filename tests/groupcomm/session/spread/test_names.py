"""Names that fit Spread's fields, and aliases of those that do not."""

import pytest

from groupcomm.session.spread.names import (
    daemon_fault,
    decode_destination,
    decode_group,
    encode_name,
    user_fault,
)


@pytest.mark.parametrize("name", ["room", "#ann#a", "g" * 31, "é" * 15])
def test_a_name_that_fits_is_the_same(name: str) -> None:
    assert encode_name(name) == name.encode()
    assert decode_destination(name.encode()) == name


@pytest.mark.parametrize("name", ["#" + "u" * 40 + "#a", "#ann#" + "d" * 40, "#" + "é" * 40 + "#d"])
def test_a_longer_private_name_has_an_alias_that_leads_back(name: str) -> None:
    alias = encode_name(name)
    assert len(alias) <= 31
    assert alias.count(b"#") == 2
    assert alias.decode() != name
    assert decode_destination(alias) == name
    assert encode_name(name) == alias


def test_aliases_of_similar_names_differ() -> None:
    names = ["#" + "u" * 40 + str(number) + "#a" for number in range(50)]
    assert len({encode_name(name) for name in names}) == 50
    assert encode_name("g" * 32) != encode_name("g" * 33)
    assert len(encode_name("g" * 255)) == 31


@pytest.mark.parametrize("raw", [b"", b"\xff", b"a\nb", b"#x", b"#a#b#c", b"##"])
def test_what_no_name_can_be_means_nobody(raw: bytes) -> None:
    assert decode_destination(raw) is None
    assert decode_group(raw) is None


def test_a_group_is_no_private_name() -> None:
    assert decode_group(b"room") == "room"
    assert decode_group(b"#ann#a") is None


def test_what_a_client_may_be_called() -> None:
    assert [user_fault(raw) for raw in (b"", b"ann", b"$~")] == ["", "", ""]
    for raw in (b"elevenbytes", b"a b", b"a#b", b"\x7f", b"\xc3\xa9"):
        assert user_fault(raw)
    assert daemon_fault("d" * 19) == ""
    assert daemon_fault("d" * 20)
