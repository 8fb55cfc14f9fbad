"""Leaks per identifier, record and user; intervals over what is independent."""

from __future__ import annotations

import math

import numpy as np
import pytest

from affidavit.accountant.errors import UsageError
from affidavit.audits.exposure import Holder, exposures, holders
from affidavit.audits.leaks import Exposure
from affidavit.audits.pii import Identifier
from affidavit.audits.statistics.clopper_pearson import rate_interval
from affidavit.audits.statistics.clustered import clustered_interval


def _mail(*numbers: int) -> frozenset[Identifier]:
    return frozenset(Identifier("email", f"a{number}@x.example") for number in numbers)


def _phone(*numbers: int) -> frozenset[Identifier]:
    return frozenset(Identifier("phone", f"+1206555{number:04d}") for number in numbers)


MEMBERS = [
    Holder(_mail(1, 2) | _phone(1), "ann"),
    Holder(_mail(3), "ann"),
    Holder(_mail(4), "bob"),
    Holder(_phone(2), "cyd"),
]


def _by(found: tuple[Exposure, ...]) -> dict[tuple[str, str], Exposure]:
    return {(item.kind, item.unit): item for item in found}


def test_counts_per_identifier_record_and_user() -> None:
    found = _by(exposures(MEMBERS, _mail(1, 2, 3), alpha=0.05, guessable=_mail(1, 3)))
    assert len(found) == 9  # three kinds of count for e-mail, phone and any
    shown = {key: (item.leaked, item.at_risk, item.beyond_guessable) for key, item in found.items()}
    assert shown == {
        ("email", "identifier"): (3, 4, 1),
        ("email", "record"): (2, 3, 1),
        ("email", "user"): (1, 2, 1),
        ("phone", "identifier"): (0, 2, 0),
        ("phone", "record"): (0, 2, 0),
        ("phone", "user"): (0, 2, 0),
        ("any", "identifier"): (3, 6, 1),
        ("any", "record"): (2, 4, 1),
        ("any", "user"): (1, 3, 1),
    }


def test_the_counterfactual_stands_beside() -> None:
    held_out = [Holder(_mail(8), "dee"), Holder(_mail(9), "dee")]
    found = _by(exposures(MEMBERS[1:3], _mail(3), alpha=0.05, held_out=held_out, held_out_leaked=_mail(9)))
    assert {unit: (item.held_out_leaked, item.held_out_at_risk) for (_, unit), item in found.items()} == {
        "identifier": (1, 2),
        "record": (1, 2),
        "user": (1, 1),
    }


def test_users_have_a_counterfactual_only_where_held_out_users_are_known() -> None:
    found = _by(exposures(MEMBERS, (), alpha=0.05, held_out=[Holder(_mail(8))], held_out_leaked=_mail(8)))
    assert found["any", "record"].held_out_at_risk == 1
    assert (found["any", "user"].held_out_leaked, found["any", "user"].held_out_at_risk) == (0, 0)


def test_intervals_are_over_users_and_say_so() -> None:
    found = _by(exposures(MEMBERS, _mail(1), alpha=0.05))
    assert found["any", "user"].interval == rate_interval(1, 3, alpha=0.05)
    assert found["any", "user"].interval_method == "Clopper-Pearson over users"
    assert found["any", "identifier"].interval == clustered_interval([1, 0, 0], [4, 1, 1], alpha=0.05)
    assert found["any", "identifier"].interval_method == "Hoeffding and Chernoff over users"


def test_without_users_records_are_what_is_independent() -> None:
    nameless = [Holder(holder.identifiers) for holder in MEMBERS]
    found = _by(exposures(nameless, _mail(1), alpha=0.05))
    assert {unit for _, unit in found} == {"identifier", "record"}
    assert found["any", "record"].interval == rate_interval(1, 4, alpha=0.05)
    assert found["any", "identifier"].interval == clustered_interval([1, 0, 0, 0], [3, 1, 1, 1], alpha=0.05)


def test_an_identifier_of_two_records_counts_once() -> None:
    (identifiers, *_) = exposures([Holder(_mail(1)), Holder(_mail(1, 2))], _mail(1), alpha=0.05)
    assert (identifiers.leaked, identifiers.at_risk) == (1, 2)


def test_holders_join_records_and_users() -> None:
    assert holders({"r1": _mail(1), "r2": _mail(2)}, {"r1": "ann"}) == (Holder(_mail(1), "ann"), Holder(_mail(2)))
    assert "ann" not in repr(Holder(_mail(1), "ann"))
    assert exposures([], (), alpha=0.05) == ()


def test_clusters_of_one_are_clopper_pearson() -> None:
    assert clustered_interval([1, 0, 0, 1], [1, 1, 1, 1], alpha=0.1) == rate_interval(2, 4, alpha=0.1)


def test_the_bound_is_the_stated_one() -> None:
    """No hit in 20 clusters of 5: KL(0‖p)·20 = −20 ln(1 − p) = ln(2/α), so p = 1 − (α/2)^(1/20)."""
    low, high = clustered_interval([0] * 20, [5] * 20, alpha=0.05)
    assert low == 0.0
    assert high == pytest.approx(1.0 - 0.025 ** (1 / 20), abs=1e-8)
    one = clustered_interval([2, 0], [2, 1], alpha=0.5)  # one big cluster: Hoeffding's side is the sharper one
    width = math.sqrt(math.log(4.0) * (4 + 1) / 9 / 2)
    assert one[0] >= 2 / 3 - width - 1e-8
    assert clustered_interval([3], [3], alpha=0.05)[1] == 1.0


@pytest.mark.parametrize("skew", [0.0, 1.5])
def test_intervals_cover_where_people_leak_together(skew: float) -> None:
    """All of a mailbox leaks or nothing: a binomial interval misses far more often than α, this one never more."""
    generator = np.random.default_rng(11)
    sizes = np.maximum(1, np.round(20 * (1 + np.arange(40)) ** -skew)).astype(int) + 2
    missed = naive_missed = 0
    for _ in range(300):
        hits = np.where(generator.random(40) < 0.3, sizes, 0)
        low, high = clustered_interval([int(h) for h in hits], [int(n) for n in sizes], alpha=0.1)
        missed += not low <= 0.3 <= high
        low, high = rate_interval(int(hits.sum()), int(sizes.sum()), alpha=0.1)
        naive_missed += not low <= 0.3 <= high
    assert missed <= 30
    assert naive_missed > 60


@pytest.mark.parametrize(("hits", "sizes"), [([], []), ([1], [0]), ([2], [1]), ([-1], [2]), ([1, 2], [3])], ids=str)
def test_nonsense_is_refused(hits: list[int], sizes: list[int]) -> None:
    with pytest.raises(UsageError):
        clustered_interval(hits, sizes, alpha=0.05)
    with pytest.raises(UsageError):
        clustered_interval([1], [2], alpha=0.0)
