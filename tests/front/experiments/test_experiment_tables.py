"""Which scores a table shows: by ε, by the number of demonstrations, and no number twice."""

from __future__ import annotations

import math

from affidavit.experiments.tables import Summary, markdown


def _summary(method: str, epsilon: float, shots: int, mean: float) -> Summary:
    return Summary(
        dataset="winds",
        method=method,
        epsilon=epsilon,
        shots=shots,
        metric="accuracy",
        seeds=3,
        mean=mean,
        deviation=0.05,
        epsilon_upper=epsilon,
        delta=1e-4 if 0.0 < epsilon < math.inf else 0.0,
        relation="zero-out",
        values="",
        tokens_per_second=math.nan,
        calls_per_token=math.nan,
    )


ROWS = (
    _summary("zero-shot", 0.0, 0, 0.41),
    _summary("real", math.inf, 1, 0.61),
    _summary("real", math.inf, 4, 0.64),
    _summary("prism", 8.0, 1, 0.51),
    _summary("prism", 8.0, 4, 0.54),
)


def test_scores_by_shots_stand_alone_where_no_method_has_two_epsilons() -> None:
    text = markdown(ROWS)
    assert "| method | ε | 0 | 1 | 4 |" in text
    assert "| zero-shot | 0 | 0.410 ± 0.050 |  |  |" in text
    assert "| prism | 8 |  | 0.510 ± 0.050 | 0.540 ± 0.050 |" in text
    assert text.count("0.540") == 1


def test_scores_by_epsilon_stand_for_every_number_of_shots_where_a_method_has_two() -> None:
    text = markdown((*ROWS, _summary("prism", 1.0, 1, 0.31), _summary("prism", 1.0, 4, 0.34)))
    assert "| method | ε = 0 | ε = 1 | ε = 8 | ε = ∞ |" in text
    assert "| prism |  | 0.340 ± 0.050 | 0.540 ± 0.050 |  |" in text
    assert "accuracy, 1 demonstration, mean" in text
    assert "accuracy, 4 demonstrations, mean" in text
    assert text.count("0.340") == 1


def test_one_number_of_shots_is_shown_by_epsilon_beside_methods_that_show_none() -> None:
    text = markdown([one for one in ROWS if one.shots != 1])
    assert "| method | ε = 0 | ε = 8 | ε = ∞ |" in text
    assert "| prism |  | 0.540 ± 0.050 |  |" in text
    assert "| zero-shot | 0.410 ± 0.050 |  |  |" in text
    assert "by number of demonstrations" not in text
