"""Every membership attack: what it needs, what its score means, and what makes it wrong."""

from __future__ import annotations

import math
import re
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import get_args

import numpy as np
import pytest
from scipy.stats import norm

from affidavit.accountant.errors import RunFileError, UsageError
from affidavit.audits.attacks.brainwash import Brainwash
from affidavit.audits.attacks.caching import Memory, Remembering, remembering_model
from affidavit.audits.attacks.canary import CANARY_DOMAIN, make_canaries
from affidavit.audits.attacks.endpoint import PromptedEndpoint, TextEndpoint
from affidavit.audits.attacks.extraction import Extraction
from affidavit.audits.attacks.gap import Gap
from affidavit.audits.attacks.inquiry import Inquiry
from affidavit.audits.attacks.lira import LiRA, logit
from affidavit.audits.attacks.loss import Loss
from affidavit.audits.attacks.min_k import MinK, lowest_mean
from affidavit.audits.attacks.min_k_plus_plus import MinKPlusPlus, standardised
from affidavit.audits.attacks.prompting import LabelPrompt, answers_with
from affidavit.audits.attacks.protocol import Access, MembershipAttack, View
from affidavit.audits.attacks.registry import (
    MEMBERSHIP_ATTACKS,
    SHADOWED,
    MembershipName,
    Settings,
    membership_attack,
)
from affidavit.audits.attacks.repeat import Repeat, common_words
from affidavit.audits.attacks.rmia import RMIA
from affidavit.audits.attacks.shadow import Shadows, make_shadows
from affidavit.audits.attacks.zlib_ratio import ZlibRatio
from affidavit.audits.textmodel import AnsweringModel, Record, TextModel, TokenScoringModel
from affidavit.generation.models.toy import ToyModel

LABELS = ("north", "south", "west")
PROMPT = LabelPrompt()
_WORDS = ["amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heath", "inlet", "jetty"]


def _records(count: int = 12, *, seed: int = 0) -> list[Record]:
    words = np.random.default_rng(seed).choice(_WORDS, size=(count, 14))
    return [Record(f"r{seed}-{i}", f"note {seed} {i} {' '.join(words[i])}", LABELS[i % 3]) for i in range(count)]


@dataclass
class Recalling:
    """Answers from its prompt: labels by majority of what it was shown for a text, else "west"; texts by heart."""

    name: str = "recalling"
    digest: str = "11" * 32
    asked: list[str] = field(default_factory=list)

    def generate(self, prompts: Sequence[str], *, max_tokens: int, **_: object) -> list[str]:
        self.asked.extend(prompts)
        return [self._answer(prompt, max_tokens) for prompt in prompts]

    def _answer(self, prompt: str, max_tokens: int) -> str:
        *before, last = prompt.split("\n\n")
        above = "\n\n".join(before)
        text = last.splitlines()[-2 if "\n" in last else -1].removeprefix("Text: ")
        if last.endswith("yes or no:"):
            return " Yes." if text in above else " no"
        if last.endswith("Category:"):
            seen = Counter(re.findall(re.escape(text) + r"\nCategory: (\w+)", above))
            return f" {seen.most_common(1)[0][0]}\n" if seen else " west"
        _, found, rest = above.partition(text)
        return " ".join(rest.splitlines()[0].split()[:max_tokens]) if found and text else "nothing of the kind"

    def log_likelihoods(self, prompts: Sequence[str], continuations: Sequence[str]) -> list[float]:
        self.asked.extend(prompts)
        return [float(scores[:, 0].sum()) for scores in self.token_scores(prompts, continuations)]

    def token_scores(self, prompts: Sequence[str], continuations: Sequence[str]) -> list[np.ndarray]:
        return [self._scores(*pair) for pair in zip(prompts, continuations, strict=True)]

    def _scores(self, prompt: str, continuation: str) -> np.ndarray:
        """One token a word: likely if the prompt holds the text (or shows the label for the text asked about)."""
        asked = prompt.rsplit("Text: ", 1)[-1].removesuffix("\nCategory:")
        known = continuation.strip() in prompt or f"{asked}\nCategory:{continuation}" in prompt
        words = continuation.split()
        # What a text's words cost differs from text to text, as it does in language.
        hard = 1.0 + (zlib.crc32(continuation.encode()) % 100) / 200.0
        column = np.full(len(words), -0.2 * hard if known else -2.0 * hard)
        return np.stack([column, np.full(len(words), -3.0), np.full(len(words), 1.5)], axis=1)


@dataclass
class TextOnly:
    """The same, showing answers alone."""

    name: str = "text only"
    digest: str = "22" * 32

    def generate(self, prompts: Sequence[str], *, max_tokens: int, **_: object) -> list[str]:
        return Recalling().generate(prompts, max_tokens=max_tokens)


def _settings(**changes: object) -> Settings:
    shadows = make_shadows(_records(20, seed=9), prompts=6, shots=2, population=8, seed=1)
    return Settings(labels=LABELS, shadows=shadows, **changes)  # type: ignore[arg-type]


def _attack(name: MembershipName, **changes: object) -> MembershipAttack:
    return membership_attack(name, _settings(**changes))


def _view(member: Record, model: AnsweringModel | None = None) -> View:
    return View((PROMPT.demonstration(member),), model or Recalling())


def test_the_stand_ins_are_models() -> None:
    assert isinstance(Recalling(), TokenScoringModel)
    assert not isinstance(TextOnly(), TextModel)
    assert isinstance(ToyModel(), TokenScoringModel)


@pytest.mark.parametrize("name", MEMBERSHIP_ATTACKS)
def test_a_higher_score_says_member(name: MembershipName) -> None:
    """The record in the prompt scores above records that are not, on average over who it is."""
    records = [record for record in _records(12) if record.label != "west"]
    attack = _attack(name)
    gains = []
    for member in records:
        own, *others = attack.scores(_view(member), [member, *(other for other in records if other is not member)])
        gains.append(own - np.mean(others))
    assert np.mean(gains) > 0.0
    assert np.min(gains) >= 0.0 or name == "loss"  # without calibration a hard text hides its use


@pytest.mark.parametrize("name", MEMBERSHIP_ATTACKS)
def test_scoring_a_text_twice_gives_equal_scores_whoever_is_scored_beside_it(name: MembershipName) -> None:
    records = _records(6)
    attack, view = _attack(name), _view(records[0])
    alone = [attack.scores(view, [record])[0] for record in records]
    assert attack.scores(view, records) == alone == attack.scores(view, records)
    assert attack.scores(view, [records[2], records[2]]) == [alone[2]] * 2


@pytest.mark.parametrize("name", MEMBERSHIP_ATTACKS)
def test_what_an_attack_needs_is_what_it_uses(name: MembershipName) -> None:
    """With answers alone exactly the attacks that say so work; the others say what would."""
    records = _records(4)
    attack = _attack(name)
    assert attack.needs <= set(get_args(Access))
    if attack.needs == {"answers"}:
        assert len(attack.scores(_view(records[0], TextOnly()), records)) == 4
        return
    with pytest.raises(UsageError, match=re.escape(name)) as caught:
        attack.scores(_view(records[0], TextOnly()), records)
    assert "gap" in caught.value.hint
    with pytest.raises(UsageError, match="needs a model"):
        attack.scores(View(("x",)), records)


@pytest.mark.parametrize("name", ["min-k", "min-k++"])
def test_sums_of_log_probabilities_are_not_enough_for_token_attacks(name: MembershipName) -> None:
    class SumsOnly(TextOnly):
        def log_likelihoods(self, prompts: Sequence[str], _: Sequence[str]) -> list[float]:
            return [0.0] * len(prompts)

    with pytest.raises(UsageError, match="every token"):
        _attack(name).scores(_view(_records(1)[0], SumsOnly()), _records(1))


@pytest.mark.parametrize("name", MEMBERSHIP_ATTACKS)
def test_an_endpoint_with_hidden_demonstrations_is_attacked_alike(name: MembershipName) -> None:
    """The attacker sees no demonstration, and asks the plain model for what he compares with."""
    records = [record for record in _records(9) if record.label != "west"]
    attack = _attack(name, own_model=Recalling())
    for member in records[:3]:
        endpoint = PromptedEndpoint(Recalling(), (PROMPT.demonstration(member),))
        scores = attack.scores(View((), endpoint), [member, *(other for other in records if other is not member)])
        assert scores[0] > np.mean(scores[1:]) or name == "loss"
    assert "note" not in repr(endpoint)
    assert endpoint.digest != PromptedEndpoint(Recalling(), ()).digest


def test_any_function_is_an_endpoint() -> None:
    endpoint = TextEndpoint("votes", "33" * 32, lambda prompts, most: ["north"[:most] for _ in prompts])
    records = _records(3)
    assert Gap().scores(View((), endpoint), records) == [1.0, 0.0, 0.0]


@pytest.mark.parametrize("name", MEMBERSHIP_ATTACKS)
def test_attacks_run_on_a_language_model(name: MembershipName) -> None:
    """The toy model copies from its prompt: the attacks on its text find that out, and all give numbers."""
    records = _records(8)
    scores = _attack(name).scores(_view(records[0], ToyModel()), records)
    assert all(math.isfinite(score) for score in scores)
    if name in {"loss", "reference", "zlib", "min-k", "min-k++"}:
        assert scores[0] == max(scores)


def test_labels_are_compared_as_words() -> None:
    assert answers_with(" World news\n", "World")
    assert answers_with("mean of transportation.", "Mean Of-Transportation")
    assert not answers_with("Worldwide", "World")
    assert not answers_with("the World", "World")
    assert not answers_with("", "World")


def test_inquiry_tells_yes_from_no_from_neither() -> None:
    answers = iter(["Yes!", "no, it is not", "perhaps"])
    endpoint = TextEndpoint("x", "44" * 32, lambda prompts, _: [next(answers) for _ in prompts])
    assert Inquiry().scores(View((), endpoint), _records(3)) == [1.0, 0.0, 0.5]


def test_brainwash_counts_the_lies_it_takes() -> None:
    """Recalling goes by majority, the earlier label on a tie: one true demonstration takes two lies."""
    member, other = _records(2)
    attack = Brainwash(LABELS, rounds=4)
    assert attack.scores(_view(member), [member]) == [2.0]
    assert attack.scores(_view(member), [other]) == [0.0]  # never knew it
    twice = View((PROMPT.demonstration(member),) * 2, Recalling())
    assert attack.scores(twice, [member]) == [3.0]
    stubborn = TextEndpoint("x", "55" * 32, lambda prompts, _: ["north" for _ in prompts])
    assert attack.scores(View((), stubborn), [member]) == [5.0]
    with pytest.raises(UsageError, match="wrong label"):
        Brainwash(("north",))


def test_brainwash_stops_asking_about_those_who_gave_way() -> None:
    model = Recalling()
    records = _records(6)
    Brainwash(LABELS, rounds=5).scores(View((PROMPT.demonstration(records[0]),), model), records)
    # All six once; the three "west" of nobody's prompt hold out one lie; the member two.
    assert len(model.asked) < 6 * 6


def test_common_words_is_the_longest_common_subsequence() -> None:
    assert common_words("the cat sat on the mat", "The cat sat.") == pytest.approx(2 * 3 / 9)
    assert common_words("a b c d", "d c b a") == pytest.approx(2 / 8)
    assert common_words("", "a") == 0.0
    generator = np.random.default_rng(5)
    for _ in range(30):
        one, other = (generator.choice(list("abc"), size=generator.integers(1, 7)) for _ in range(2))
        subsets = {tuple(one[[i for i in range(len(one)) if m >> i & 1]]) for m in range(1 << len(one))}
        longest = max(len(s) for s in subsets if _is_subsequence(s, tuple(other)))
        assert common_words(" ".join(one), " ".join(other)) == pytest.approx(2 * longest / (len(one) + len(other)))


def _is_subsequence(short: tuple[str, ...], long: tuple[str, ...]) -> bool:
    rest = iter(long)
    return all(word in rest for word in short)


def test_repeat_compares_what_follows_the_given_words_and_takes_any_similarity() -> None:
    member, other = _records(2)
    assert Repeat().scores(_view(member), [member]) == [1.0]
    assert Repeat().scores(_view(member), [other])[0] < 0.5
    seen: list[tuple[str, str]] = []

    def length(answer: str, rest: str) -> float:
        seen.append((answer, rest))
        return float(len(answer))

    Repeat(similarity=length, given_words=3, compared_words=4).scores(_view(member), [member])
    ((answer, rest),) = seen
    assert answer == rest == " ".join(member.text.split()[3:7])


def test_min_k_takes_the_least_likely_share() -> None:
    values = -np.arange(10.0)
    assert lowest_mean(values, share=0.2) == pytest.approx(-8.5)
    assert lowest_mean(values, share=0.01) == -9.0
    assert lowest_mean(np.empty(0), share=0.2) == 0.0
    with pytest.raises(UsageError, match="share"):
        lowest_mean(values, share=0.0)


def test_min_k_plus_plus_standardises_by_the_next_token_distribution() -> None:
    """Against sums over a vocabulary written out: (ln p(x) − Σ p ln p)/√(Σ p (ln p)² − (Σ p ln p)²)."""
    model = ToyModel()
    prompt, text = "Sort each text.\n\nText:", " the order"
    (found,) = model.token_scores([prompt], [text])
    tokens = model.encode(text)
    decoding = model.start([model.encode(prompt)], width=len(model.encode(prompt)))
    for row, token in zip(found, tokens, strict=True):
        logits = decoding.logits[0].astype(np.float64)
        p = np.exp(logits) / np.exp(logits).sum()
        mean = (p * np.log(p)).sum()
        spread = math.sqrt((p * np.log(p) ** 2).sum() - mean**2)
        assert row == pytest.approx([math.log(p[token]), mean, spread], rel=1e-6)
        assert standardised(row[None])[0] == pytest.approx((math.log(p[token]) - mean) / spread, rel=1e-6)
        decoding.append([token])
    assert standardised(np.asarray([[0.0, 0.0, 0.0]]))[0] == 0.0
    assert float(found[:, 0].sum()) == pytest.approx(model.log_likelihoods([prompt], [text])[0])


def test_loss_and_zlib_are_the_likelihood_by_length_and_by_compressed_length() -> None:
    record = _records(1)[0]
    view = _view(record)
    (total,) = Recalling().log_likelihoods(["\n\n".join([*view.texts, "Text:"])], [f" {record.text}"])
    assert Loss().scores(view, [record]) == [pytest.approx(total / len(record.text))]
    assert ZlibRatio().scores(view, [record]) == [pytest.approx(total / len(zlib.compress(record.text.encode())))]


def test_token_attacks_agree_with_their_formulas() -> None:
    record = _records(1)[0]
    view = _view(record)
    (value,) = MinK().scores(view, [record])
    hard = 1.0 + (zlib.crc32(f" {record.text}".encode()) % 100) / 200.0
    assert value == pytest.approx(-0.2 * hard)
    assert MinKPlusPlus().scores(view, [record]) == [pytest.approx((-0.2 * hard + 3.0) / 1.5)]


def test_the_logit_keeps_its_digits_at_both_ends() -> None:
    assert logit(math.log(0.25)) == pytest.approx(math.log(1 / 3))
    assert logit(-1e-9) == pytest.approx(math.log(1e9), rel=1e-6)
    assert logit(-800.0) == pytest.approx(-800.0)
    assert math.isfinite(logit(0.0))


@dataclass
class Confident:
    """Gives the true label of a text with a probability that is set for each (prompt holds it, text)."""

    name: str = "confident"
    digest: str = "66" * 32
    asked: int = 0

    def generate(self, prompts: Sequence[str], **_: object) -> list[str]:
        return ["" for _ in prompts]

    def log_likelihoods(self, prompts: Sequence[str], _: Sequence[str]) -> list[float]:
        self.asked += len(prompts)
        return [math.log(self.probability(prompt)) for prompt in prompts]

    def probability(self, prompt: str) -> float:
        text = prompt.rsplit("Text: ", 1)[-1].removesuffix("\nCategory:")
        base = 0.2 + (zlib.crc32(text.encode()) % 50) / 100.0
        noise = (zlib.crc32(prompt.encode()) % 21 - 10) / 200.0
        return base + noise + (0.2 if prompt.count(text) > 1 else 0.0)


def test_lira_is_the_log_ratio_of_two_normals_with_one_variance() -> None:
    shadows = make_shadows(_records(16, seed=3), prompts=8, shots=2, population=0, seed=0)
    record, other = _records(2)
    model = Confident()
    view = View((PROMPT.demonstration(record),), model)
    for scored in (record, other):
        values = {
            held: [
                logit(math.log(model.probability(PROMPT.query(shown, scored.text))))
                for shown in (shadows.holding(scored, PROMPT) if held else shadows.without(PROMPT))
            ]
            for held in (True, False)
        }
        seen = logit(math.log(model.probability(PROMPT.query(view.texts, scored.text))))
        sigma = 0.7
        ratio = norm.logpdf(seen, np.mean(values[True]), sigma) - norm.logpdf(seen, np.mean(values[False]), sigma)
        assert LiRA(shadows).scores(view, [scored]) == [pytest.approx(2 * sigma**2 * ratio)]


def test_shadow_prompts_are_asked_once_a_record() -> None:
    """Runs after the first cost one question a record; RMIA also asks about its population again."""
    shadows = make_shadows(_records(20, seed=3), prompts=8, shots=1, population=5, seed=0)
    records = _records(6)
    for attack, again in ((LiRA(shadows), 6), (RMIA(shadows), 6 + 5)):
        model = Confident()
        attack.scores(View((PROMPT.demonstration(records[0]),), model), records)
        first = model.asked
        attack.scores(View((PROMPT.demonstration(records[1]),), model), records)
        assert model.asked - first == again
        assert first > 40


def test_rmia_is_a_share_of_the_population_and_fair_to_non_members() -> None:
    shadows = make_shadows(_records(40, seed=3), prompts=8, shots=1, population=32, seed=0)
    records = _records(60, seed=5)
    scores = RMIA(shadows).scores(View((PROMPT.demonstration(records[0]),), Confident()), records)
    assert scores[0] > 0.9
    assert all(score * 32 == pytest.approx(round(score * 32)) for score in scores)
    # A record that is not in is one more of the population: its rank is about uniform.
    assert 0.35 < float(np.mean(scores[1:])) < 0.65
    with pytest.raises(UsageError, match="population"):
        RMIA(Shadows(shadows.prompts))
    with pytest.raises(UsageError, match="gamma"):
        RMIA(shadows, gamma=0.0)


def test_rmia_counts_no_record_of_the_population_that_gains_as_much() -> None:
    """The population scored against itself: each is left out of its own share."""
    shadows = make_shadows(_records(40, seed=3), prompts=8, shots=1, population=16, seed=0)
    scores = RMIA(shadows).scores(View((), Confident()), list(shadows.population))
    assert max(scores) <= 15 / 16
    assert min(scores) == 0.0


def test_shadow_prompts_are_disjoint_and_move_with_the_seed() -> None:
    records = _records(20)
    made = make_shadows(records, prompts=6, shots=3, population=2, seed=1)
    everyone = [record.id for shown in made.prompts for record in shown] + [record.id for record in made.population]
    assert len(set(everyone)) == len(everyone) == 20
    assert made == make_shadows(records, prompts=6, shots=3, population=2, seed=1)
    assert made != make_shadows(records, prompts=6, shots=3, population=2, seed=2)
    record = _records(1, seed=4)[0]
    for held, without in zip(made.holding(record, PROMPT), made.without(PROMPT), strict=True):
        assert [a for a, b in zip(held, without, strict=True) if a != b] == [PROMPT.demonstration(record)]


def test_more_shadow_prompts_than_there_are_is_an_error() -> None:
    with pytest.raises(RunFileError, match="254") as caught:
        make_shadows(_records(8), prompts=254, shots=1, population=0, seed=0)
    assert caught.value.key == "shadow_prompts"
    assert "`shadow_prompts = 8`" in caught.value.hint
    with pytest.raises(RunFileError) as caught:
        make_shadows(_records(8), prompts=4, shots=1, population=5, seed=0)
    assert (caught.value.key, "`population = 4`" in caught.value.hint) == ("population", True)


def test_every_shadowed_attack_is_named() -> None:
    assert {name for name in MEMBERSHIP_ATTACKS if hasattr(_attack(name), "shadows")} == SHADOWED


def test_a_memory_computes_each_key_once() -> None:
    calls: list[list[int]] = []

    def square(keys: list[int]) -> list[int]:
        calls.append(keys)
        return [key * key for key in keys]

    memory: Memory[int, int] = Memory()
    assert memory.get([3, 1, 3], square) == [9, 1, 9]
    assert memory.get([1, 2], square) == [1, 4]
    assert calls == [[3, 1], [2]]
    assert (memory.asked, memory.computed) == (5, 3)


def test_a_remembered_attack_is_the_attack() -> None:
    attack = Loss()
    remembering = Remembering(attack)
    assert (remembering.name, remembering.needs) == (attack.name, attack.needs)
    record = _records(1)[0]
    view = _view(record)
    assert remembering.scores(view, [record] * 3) == attack.scores(view, [record] * 3)
    assert (remembering.memory.asked, remembering.memory.computed) == (3, 1)


def test_attacks_that_ask_the_same_ask_once() -> None:
    """Three attacks want one likelihood: it is asked for once."""
    records = _records(6)
    model = Recalling()
    remembering = remembering_model(model)
    expected = [_attack(name).scores(_view(records[0]), records) for name in ("loss", "zlib", "gap")]
    view = _view(records[0], remembering)
    found = [_attack(name).scores(view, records) for name in ("loss", "zlib", "gap")]
    assert found == expected
    assert len(model.asked) == 2 * len(records)
    _attack("reference").scores(view, records)
    assert len(model.asked) == 3 * len(records)  # only what it asks without context is new


@pytest.mark.parametrize("model", [Recalling(), TextOnly(), Confident()], ids=lambda model: model.name)
def test_a_memory_shows_no_more_than_the_model(model: AnsweringModel) -> None:
    remembering = remembering_model(model)
    for kind in (TextModel, TokenScoringModel):
        assert isinstance(remembering, kind) == isinstance(model, kind)
    assert (remembering.name, remembering.digest) == (model.name, model.digest)


def test_canaries_hold_one_unguessable_address_each() -> None:
    canaries = make_canaries(200, seed=3, labels=("a", "b"))
    found = [Extraction().identifiers([record.text]) for record in canaries]
    assert all(len(each) == 1 for each in found)
    assert len({identifier for each in found for identifier in each}) == 200
    assert all(identifier.value.endswith(CANARY_DOMAIN) for each in found for identifier in each)
    assert Counter(record.label for record in canaries) == {"a": 100, "b": 100}
    assert canaries == make_canaries(200, seed=3, labels=("a", "b")) != make_canaries(200, seed=4, labels=("a", "b"))
    with pytest.raises(UsageError, match="0 canaries"):
        make_canaries(0, seed=1)
