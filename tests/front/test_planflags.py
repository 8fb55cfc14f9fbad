"""A plan from numbers: what each flag means, what is said of it, and remedies that work as they are printed."""

from __future__ import annotations

import json
import re
import shlex
from fractions import Fraction

import pytest

from affidavit.accountant.bound import bound
from affidavit.accountant.errors import PlanError, UsageError
from affidavit.accountant.plan import (
    Exponential,
    Gaussian,
    Laplace,
    Poisson,
    Pure,
    Repeat,
    WithoutReplacement,
    ZeroConcentrated,
)
from affidavit.planflags import PlanFlags

MNIST = ["--noise", "1.1", "--records", "60000", "--batch", "256", "--epochs", "60", "--delta", "1e-5"]


def made(**flags):
    return PlanFlags(**{"relation": "zero-out", **flags}).envelope("epsilon").plan


def remedies(text: str) -> list[list[str]]:
    """Every command in backticks, in words."""
    return [shlex.split(command)[1:] for command in re.findall(r"`(affidavit [^`]*)`", text)]


@pytest.mark.parametrize(
    ("flags", "plan"),
    [
        ({"noise": 2.0}, Gaussian(2.0)),
        ({"noise": 2.0, "mechanism": "gaussian", "steps": 1}, Gaussian(2.0)),
        ({"noise": 2.0, "mechanism": "laplace", "steps": 3}, Repeat(3, Laplace(2.0))),
        ({"rho": 0.1}, ZeroConcentrated(0.1)),
        ({"epsilon_each": 0.1, "steps": 2}, Repeat(2, Pure(0.1))),
        ({"range": 0.1, "mechanism": "exponential"}, Exponential(0.1)),
        ({"noise": 2.0, "rate": "0.01"}, Poisson(0.01, Gaussian(2.0))),
        ({"noise": 2.0, "rate": "1"}, Gaussian(2.0)),
        ({"noise": 2.0, "records": 50, "batch": 50}, Gaussian(2.0)),
        ({"noise": 2.0, "records": 100, "batch": 25}, Poisson(0.25, Gaussian(2.0))),
        ({"noise": 2.0, "rate": "1/4", "epochs": "2.5"}, Repeat(10, Poisson(0.25, Gaussian(2.0)))),
        ({"noise": 2.0, "rate": "1/4", "epochs": "1/3"}, Repeat(2, Poisson(0.25, Gaussian(2.0)))),
        (
            {"noise": 2.0, "records": 9, "batch": 4, "epochs": "1", "sampling": "without-replacement"}
            | {"relation": "substitution"},
            Repeat(3, WithoutReplacement(9, 4, Gaussian(2.0))),
        ),
    ],
    ids=str,
)
def test_what_flags_mean(flags, plan):
    assert made(**flags) == plan


@pytest.mark.parametrize("batch", range(1, 60))
def test_a_quotient_is_never_rounded_to_a_smaller_rate(batch):
    """A larger rate costs more; a decimal is the float that a plan file would read."""
    for flags in ({"rate": f"{batch}/59"}, {"records": 59, "batch": batch}):
        plan = made(noise=1.0, **flags)
        rate = plan.rate if isinstance(plan, Poisson) else 1.0
        assert 0 <= Fraction(rate) - Fraction(batch, 59) < Fraction(1, 2**52)
    decimal = made(noise=1.0, rate=f"0.{batch:02d}")
    assert decimal.rate == float(f"0.{batch:02d}")


def test_the_mnist_tutorial_without_a_file(command):
    """2.38168973 by both engines; dp-accounting 0.6.0 (PLD): 2.38178 (docs/published-epsilons.md)."""
    done = command("epsilon", *MNIST, "--relation", "add-remove")
    assert done.code == 0
    assert "14062.5 steps, rounded up to 14063" in done.out
    assert "Poisson sampling is meant" in done.out
    assert done.out.endswith("is at least 2.38168 and at most 2.38169 (add-remove, by pld).\n")
    assert done.err == ""


def test_as_json_with_the_risk_and_how_the_flags_were_read(command):
    done = command("epsilon", *MNIST, "--relation", "add-remove", "--json").json
    assert done["epsilon_lower"] <= done["epsilon_upper"] == pytest.approx(2.3816897, rel=1e-7)
    assert done["plan"]["plan"]["count"] == 14063
    assert done["plan"]["plan"]["of"]["rate"] == pytest.approx(256 / 60000, rel=1e-15)
    assert 0.5 < done["risk"]["area_under_roc"] < 0.7
    assert any("Poisson" in note for note in done["notes"])


def test_the_plan_that_is_shown_is_the_plan_that_was_bounded(command, tmp_path):
    """Saved as a file it costs the same, with delta and sigma too."""
    shown = command("epsilon", *MNIST, "--relation", "add-remove", "--show-plan")
    file = tmp_path / "plan.json"
    file.write_text(shown.out, encoding="utf-8")
    by_file = command("epsilon", file, "--json").json
    by_flags = command("epsilon", *MNIST, "--relation", "add-remove", "--json").json
    assert by_flags.pop("notes")
    assert by_file == by_flags
    assert command("epsilon", file, "--show-plan").out == shown.out
    line = command("epsilon", *MNIST, "--relation", "add-remove").out.splitlines()[0]
    assert json.loads(line.partition(": ")[2]) == json.loads(shown.out)


def test_delta_and_sigma_from_the_same_flags(command, tmp_path):
    use = ["--records", "100", "--batch", "10", "--epochs", "3", "--relation", "zero-out"]
    delta = command("delta", "--epsilon", "1", "--noise", "2", *use, "--json").json
    assert delta["plan"]["plan"]["count"] == 30
    epsilon = command("epsilon", "--delta", repr(delta["delta_upper"]), "--noise", "2", *use, "--json").json
    assert epsilon["epsilon_lower"] <= 1.0 <= epsilon["epsilon_upper"] * (1 + 2e-3)
    for mechanism in ("gaussian", "laplace"):
        asked = ["sigma", "--epsilon", "1", "--delta", "1e-5", "--mechanism", mechanism, *use]
        solved = command(*asked, "--json").json
        file = tmp_path / f"{mechanism}.json"
        file.write_text(command(*asked, "--show-plan").out, encoding="utf-8")
        cost = command("epsilon", file, "--json").json
        assert cost["plan"] == solved["plan"]
        assert 0.99 < cost["epsilon_upper"] <= 1.0 + 1e-3
        assert command(*asked).out.strip() == f"{solved['value']}"


def test_rho_has_a_lower_side(command):
    """σ = 1/√(2 · 0.01 · 10) = √5: 1.76005... (Balle and Wang 2018, closed form)."""
    done = command("epsilon", "--rho", "0.01", "--steps", "10", "--delta", "1e-5", "--relation", "add-remove")
    same = bound(Gaussian(5**0.5), relation="add-remove", delta=1e-5)
    assert same.epsilon_lower == pytest.approx(1.7600571, abs=1e-6)
    assert "is at least 1.76005 and at most 1.91424" in done.out


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--steps", "3"],
        ["--mechanism", "laplace"],
        ["--mechanism", "laplace", "--rho", "1"],
        ["--noise", "2", "--rho", "0.1"],
        ["--noise", "2", "--steps", "3", "--epochs", "2", "--rate", "0.1"],
        ["--noise", "2", "--epochs", "2"],
        ["--noise", "2", "--batch", "300"],
        ["--noise", "2", "--batch", "70000"],
        ["--noise", "2", "--records", "300"],
        ["--noise", "2", "--records", "60", "--batch", "6", "--rate", "0.1"],
        ["--noise", "2", "--batch", "6", "--rate", "0.1"],
        ["--noise", "2", "--sampling", "poisson"],
        ["--noise", "2", "--rate", "0.01", "--sampling", "without-replacement"],
        ["--noise", "2", "--rate", "256/60000", "--sampling", "without-replacement"],
        ["--noise", "2", "--records", "60", "--batch", "6", "--sampling", "without-replacement"],
        ["--noise", "2", "--rate", "0.1"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("name", ["epsilon", "delta"])
def test_what_does_not_go_together_is_refused_with_commands_that_work(command, arguments, name):
    at = ["--delta", "1e-5"] if name == "epsilon" else ["--epsilon", "1"]
    done = command(name, *arguments, *at)
    assert done.code == 2, done.out
    assert done.out == ""
    found = remedies(done.err)
    assert found, done.err
    for words in found:
        assert words[0] == name
        assert command(*words, "--show-plan").code == 0, words
        assert command(*words).code == 0, words


def test_a_missing_delta_and_what_is_said_beside_a_number_work_as_printed(command):
    missing = command("epsilon", "--noise", "2", "--relation", "zero-out")
    assert missing.code == 2
    said = command("epsilon", "--noise", "5", "--records", "60", "--batch", "6", "--epochs", "2", "--delta", "1e-5")
    assert said.code == 2
    (again,) = remedies(said.err)
    beside = command(*again)
    found = remedies(missing.err) + remedies(beside.out)
    assert len(found) == 3
    for words in found:
        assert command(*words).code == 0, words


def test_a_file_or_numbers_never_both(command, tmp_path):
    file = tmp_path / "my plan.json"
    envelope = {"relation": "add-remove", "delta": 1e-5, "plan": {"kind": "gaussian", "noise_multiplier": 3.0}}
    file.write_text(json.dumps(envelope), encoding="utf-8")
    for beside in (["--delta", "1e-5"], ["--delta", "1e-6", "--relation", "zero-out"]):
        done = command("epsilon", file, "--noise", "2", *beside)
        assert done.code == 2
        by_file, by_flags = remedies(done.err)
        assert str(file) in by_file
        assert command(*by_file).code == command(*by_flags).code == 0


@pytest.mark.parametrize(
    ("flags", "path"),
    [
        ({"noise": -1.0}, "--noise"),
        ({"noise": 1.0, "steps": 0}, "--steps"),
        ({"noise": 1.0, "epochs": "0", "rate": "0.1"}, "--epochs"),
        ({"noise": 1.0, "epochs": "many", "rate": "0.1"}, "--epochs"),
        ({"noise": 1.0, "epochs": "1", "rate": "0"}, "--rate"),
        ({"noise": 1.0, "rate": "3/2"}, "--rate"),
        ({"noise": 1.0, "records": 5, "batch": 6}, "--batch"),
        ({"noise": 1.0, "records": 5, "batch": 0}, "--batch"),
        ({"noise": 1.0, "mechanism": "guess"}, "--mechanism"),
        ({"noise": 1.0, "rate": "0.5", "sampling": "shuffled"}, "--sampling"),
        ({"noise": 1.0, "relation": "unbounded"}, "--relation"),
        ({"noise": 1.0, "relation": None}, "--relation"),
        ({"rho": float("nan")}, "--rho"),
    ],
    ids=str,
)
def test_numbers_out_of_range_name_their_flag(flags, path):
    with pytest.raises(PlanError) as caught:
        made(**flags)
    assert caught.value.path == path
    assert caught.value.allowed


def test_sampling_under_substitution_says_that_it_lowers_nothing():
    flags = PlanFlags(noise=1.0, rate="0.01", relation="substitution")
    sampled = bound(flags.envelope("epsilon").plan, relation="substitution", delta=1e-5)
    whole = bound(Gaussian(1.0), relation="substitution", delta=1e-5)
    assert sampled.epsilon_upper >= 0.7 * whole.epsilon_upper
    assert any("absent" in note for note in flags.notes("epsilon"))


def test_the_smallest_population_still_has_a_remedy():
    with pytest.raises(UsageError) as caught:
        made(noise=1.0, records=3)
    assert "--batch 3" in caught.value.hint
