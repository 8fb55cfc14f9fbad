"""Which release of how many, and about how long the rest takes."""

from __future__ import annotations

from affidavit.audits.countdown import Countdown


def test_each_release_is_told_with_the_time_left_at_the_pace_since_the_first() -> None:
    now, lines = [0.0], []
    count = Countdown(lines.append, 4, clock=lambda: now[0])

    def made(seconds: float, *, text: str) -> str:
        now[0] += seconds
        return text

    first, second = count.of_each(made, "epsilon 1"), count.of_each(made, "epsilon 4")
    assert [first(100.0, text="a"), first(20.0, text="b"), second(3.0, text="c"), second(3.0, text="d")] == [*"abcd"]
    assert lines == [
        "epsilon 1, release 1 of 4",
        "epsilon 1, release 2 of 4, about 5 min left",
        "epsilon 4, release 3 of 4, about 40 s left",
    ], "3 s after a line there is no other of the same kind; the first does once what the others need not"


def test_a_minute_and_less_are_told_in_seconds() -> None:
    now, lines = [0.0], []
    count = Countdown(lines.append, 3, clock=lambda: now[0])

    def made() -> None:
        now[0] += 20.0

    each = count.of_each(made, "epsilon 8")
    for _ in range(3):
        each()
    assert lines[1:] == ["epsilon 8, release 2 of 3, about 40 s left", "epsilon 8, release 3 of 3, about 20 s left"]
