"""Near copies, against a whole edit-distance table; and that what everybody writes accuses nobody. All invented."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest

from affidavit.audits.near_copies import NearCopy, chance_of_members, near_copies
from affidavit.audits.words import Words


def _fewest(window: tuple[str, ...], text: tuple[str, ...]) -> int:
    """Edits from a window to the best part of a text: the table of Sellers 1980, written out."""
    row = [0] * (len(text) + 1)
    for number, word in enumerate(window, start=1):
        above, row = row, [number]
        for place, other in enumerate(text, start=1):
            row.append(min(above[place] + 1, row[-1] + 1, above[place - 1] + (word != other)))
    return min(row)


def _brute(texts: list[Words], records: list[Words], *, words: int, edits: int) -> dict[tuple[int, int, int], int]:
    found = {}
    for (number, text), (other, record) in itertools.product(enumerate(texts), enumerate(records)):
        for first, window in record.windows(words):
            if (fewest := _fewest(window, text.words)) <= edits:
                found[number, other, first] = fewest
    return found


def _least(copies: list[NearCopy]) -> dict[tuple[int, int, int], int]:
    found: dict[tuple[int, int, int], int] = {}
    for copy in copies:
        key = copy.text, copy.record, copy.first
        found[key] = min(copy.edits, found.get(key, copy.edits))
    return found


def _edited(generator: random.Random, written: list[str], vocabulary: list[str], edits: int) -> list[str]:
    changed = list(written)
    for _ in range(edits):
        at = generator.randrange(len(changed) or 1)
        match generator.randrange(3):
            case 0:
                changed[at] = generator.choice(vocabulary)
            case 1:
                changed.insert(at, generator.choice(vocabulary))
            case _:
                del changed[at]
    return changed


@pytest.mark.parametrize(("words", "edits", "many"), [(6, 1, 4), (8, 2, 30), (20, 4, 200), (5, 0, 3), (32, 3, 50)])
def test_every_near_copy_is_found_with_its_fewest_edits(words: int, edits: int, many: int) -> None:
    generator = random.Random(words)
    vocabulary = [f"w{number}" for number in range(many)]
    records = [generator.choices(vocabulary, k=generator.randrange(words - 2, 3 * words)) for _ in range(5)]
    texts = [
        generator.choices(vocabulary, k=words // 2) + _edited(generator, record, vocabulary, count // 4)
        for record, count in zip(records * 4, range(20), strict=True)
    ]
    texts += [[], generator.choices(vocabulary, k=3 * words)]
    asked = [Words.of(" ".join(text)) for text in texts], [Words.of(" ".join(record)) for record in records]
    found = near_copies(*asked, words=words, edits=edits)
    expected = _brute(*asked, words=words, edits=edits)
    assert _least(found) == expected
    assert len(expected) > 20
    assert set(expected.values()) == set(range(edits + 1)), "each number of edits occurs"
    for copy in found:
        assert 0 <= copy.last < len(asked[0][copy.text].words)
        window = asked[1][copy.record].words[copy.first : copy.first + words]
        ending = asked[0][copy.text].words[max(0, copy.last + 1 - words - edits) : copy.last + 1]
        assert _fewest(window, ending) <= copy.edits


def test_a_window_has_to_fit() -> None:
    with pytest.raises(ValueError, match="0 <= edits < words <= 32"):
        near_copies([], [], words=33)


def test_the_chance_of_members_is_that_of_a_draw_without_replacement() -> None:
    """Of 5 members and 4 others, 3 records are nearly copied: each set of three counted."""
    sides = [*("in",) * 5, *("out",) * 4]
    for inside in range(4):
        chosen = [sum(side == "in" for side in each) >= inside for each in itertools.combinations(sides, 3)]
        found = chance_of_members(range(inside), range(3 - inside), members=5, held_out=4)
        assert found == pytest.approx(sum(chosen) / len(chosen))


def test_text_that_knows_no_member_is_rarely_accused() -> None:
    """10,000 draws of who is a member; the same 13 of 60 records are nearly copied each time."""
    generator = np.random.default_rng(3)
    found = []
    for _ in range(10_000):
        order = generator.permutation(60)
        inside = int((order[:25] < 13).sum())
        found.append(chance_of_members(range(inside), range(13 - inside), members=25, held_out=35))
    for alpha in (0.2, 0.05, 0.01):
        assert sum(each <= alpha for each in found) <= 10_000 * alpha + 4 * math.sqrt(10_000 * alpha * (1 - alpha))
