"""The checker of memory: growth that counts as a leak, and growth that does not."""

from tests.verification.campaigns.memory import BYTES_A_NAME, LASTING, NOISE_BYTES, Reading, check

MILLION = 1_000_000


def readings(bytes_a_name: float, *, begin: int = 50_000_000) -> list[Reading]:
    return [
        Reading(names, 1, {name: int(begin + bytes_a_name * names) for name in LASTING})
        for names in range(0, MILLION + 1, MILLION // 9)
    ]


def test_a_leak_of_a_pointer_a_name_is_found_at_every_daemon() -> None:
    assert [text.split()[0] for text in check(readings(8.0))] == list(LASTING)


def test_what_grows_once_or_by_less_than_any_entry_is_none() -> None:
    assert check(readings(BYTES_A_NAME - 1)) == []
    later = readings(0)
    later[0] = Reading(0, 1, dict.fromkeys(LASTING, 10_000_000))
    later[-1] = Reading(MILLION, 1, dict.fromkeys(LASTING, 50_000_000 + NOISE_BYTES))
    assert check(later) == []
