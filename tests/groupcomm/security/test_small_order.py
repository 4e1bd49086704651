"""Public keys for which anybody can sign are refused."""

from typing import Final

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from groupcomm.errors import ConfigError
from groupcomm.security.identity import Roll, has_small_order, public_of

FIELD: Final = 2**255 - 19
ORDER: Final = 2**252 + 27742317777372353535851937790883648493
D: Final = -121665 * pow(121666, -1, FIELD) % FIELD

Point = tuple[int, int]


def add(one: Point, other: Point) -> Point:
    """Add two points of edwards25519 (RFC 8032, section 5.1.4, in affine coordinates)."""
    (x1, y1), (x2, y2) = one, other
    product = D * x1 * x2 * y1 * y2 % FIELD
    x = (x1 * y2 + x2 * y1) * pow(1 + product, -1, FIELD) % FIELD
    return x, (y1 * y2 + x1 * x2) * pow(1 - product, -1, FIELD) % FIELD


def multiply(count: int, point: Point) -> Point:
    result = 0, 1
    while count:
        if count & 1:
            result = add(result, point)
        point, count = add(point, point), count >> 1
    return result


def points(y: int) -> list[Point]:
    """The points with this y, none or two."""
    square = (y * y - 1) * pow(D * y * y + 1, -1, FIELD) % FIELD
    x = pow(square, (FIELD + 3) // 8, FIELD)
    if (x * x - square) % FIELD:
        x = x * pow(2, (FIELD - 1) // 4, FIELD) % FIELD
    return [] if (x * x - square) % FIELD else [(x, y), (FIELD - x, y)]


def small_order_keys() -> set[bytes]:
    """All encodings of points whose order divides 8, those not reduced included."""
    small = {multiply(ORDER, point) for y in range(2, 40) for point in points(y)}
    assert len(small) == 8
    ys = {y for _, y in small}
    encodings = ys | {y + FIELD for y in ys if y + FIELD < 2**255}
    return {(sign << 255 | y).to_bytes(32, "little") for y in encodings for sign in (0, 1)}


def test_all_points_of_small_order_are_known() -> None:
    for key in small_order_keys():
        assert has_small_order(key), key.hex()
    for count in range(1, 50):
        assert not has_small_order(public_of(bytes([count]) * 32))


def test_anybody_can_sign_for_the_key_of_zeros_and_it_is_refused() -> None:
    zeros = bytes(32)
    assert any(verifies(zeros, bytes(64), b"%d" % count) for count in range(64))
    with pytest.raises(ConfigError, match=r"press has small order.*groupcomm identity new"):
        Roll({"press": zeros})


def verifies(public: bytes, signature: bytes, said: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, said)
    except InvalidSignature:
        return False
    return True
