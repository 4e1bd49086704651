"""The window finds what passes, and is not fooled by single losses."""

from groupcomm.ring.flow_control import LEAST_WINDOW_BYTES, PART, SHOWS_AFTER, Window

KIB = 1024


def used_up(window: Window, visits: int = 1) -> None:
    for _ in range(visits):
        window.token_left(window.bytes)
        window.token_returned()


def test_it_grows_to_its_limit_while_all_of_it_is_used() -> None:
    window = Window(256 * KIB, 2048 * KIB)
    used_up(window)
    assert window.bytes == 256 * KIB * (PART + 1) // PART
    used_up(window, visits=50)
    assert window.bytes == 2048 * KIB


def test_it_stays_while_less_is_sent() -> None:
    window = Window(256 * KIB, 2048 * KIB)
    for _ in range(50):
        window.token_left(100 * KIB)
        window.token_returned()
    assert window.bytes == 256 * KIB


def test_much_that_was_lost_halves_it_once() -> None:
    window = Window(256 * KIB, 2048 * KIB)
    window.token_left(256 * KIB)
    window.token_returned()
    before = window.bytes
    window.repeated = 40 * KIB
    window.token_left(1)
    window.token_returned()
    assert window.bytes == before // 2
    for _ in range(SHOWS_AFTER):
        window.token_left(1)
        window.token_returned()
    assert window.bytes == before // 2


def test_a_few_lost_packets_only_keep_it_from_growing() -> None:
    window = Window(256 * KIB, 2048 * KIB)
    for _ in range(20):
        window.token_left(window.bytes)
        window.repeated = window.bytes // 100
        window.token_returned()
    assert window.bytes == 256 * KIB


def test_it_never_shrinks_to_nothing() -> None:
    window = Window(256 * KIB, 2048 * KIB)
    for _ in range(50):
        window.token_left(window.bytes)
        window.repeated = window.bytes
        window.token_returned()
    assert window.bytes == LEAST_WINDOW_BYTES


def test_a_buffer_that_takes_less_is_hardly_ever_overrun() -> None:
    """A receiver takes 200 KiB of a burst; the window settles around that."""
    window = Window(256 * KIB, 2048 * KIB)
    overrun = 0
    lost: list[int] = [0, 0]  # the loss shows two visits later
    for _ in range(400):
        window.token_left(window.bytes)
        lost.append(max(0, window.bytes - 200 * KIB))
        overrun += lost[-1] > 0
        window.repeated = lost[-3]
        window.token_returned()
    assert 150 * KIB < window.bytes < 250 * KIB
    assert overrun < 300


def test_an_eighth_that_was_lost_costs_an_eighth_and_more_the_half() -> None:
    for more, part in ((0, PART), (1, 2)):
        window = Window(256 * KIB, 2048 * KIB)
        window.token_left(256 * KIB)
        window.repeated = 256 * KIB // PART + more
        window.token_returned()
        assert window.bytes == 256 * KIB - 256 * KIB // part
