"""Bugs in PRISM, private prediction and InvisibleInk, and in what they share: batches, prompts, the loop."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from planted_audits import Case, Plant

from affidavit.generation import aggregate, batched, batches, invisible_ink, prism, private_prediction, probabilities
from affidavit.generation.recorder import Recorder
from affidavit.mechanisms import above_threshold
from support.odd_rows import Longest, Ragged, WithPublic

Patch = pytest.MonkeyPatch

PRISM = Case("prism", changes={"max_tokens": 4})
INK = Case("invisible-ink", changes={"max_tokens": 4})
PREDICTION = Case("private-prediction", mechanism="exponential")


# --- scores of PRISM -------------------------------------------------------------------------------------------


def clip_after_the_sum(patch: Patch) -> None:
    def scores(config, private, public):
        rows = [row for part in private.logits() for row in part]
        own = aggregate.clip_to_grid(public.logits, clip=config.clip)[0][0]
        if not rows:
            return aggregate.blend(np.zeros(own.size, dtype=np.int64), own, batch_size=config.batch_size)
        mean = np.sum(rows, axis=0, keepdims=True, dtype=np.float32) / np.float32(config.batch_size)
        clipped = aggregate.clip_to_grid(mean, clip=config.clip)[0][0].astype(np.int64)
        return aggregate.blend(config.batch_size * clipped, own, batch_size=config.batch_size)

    patch.setattr(prism, "token_scores", scores)


def bound_doubled(patch: Patch) -> None:
    _measure_private_rows(patch, lambda logits, clip: aggregate.clip_to_grid(logits, clip=2.0 * clip))


def _measure_private_rows(patch: Patch, clip_rows) -> None:
    """What private rows contribute is ``clip_rows(logits, clip)``; the public row is measured as ever."""
    whole = batches.PrivateRows.total

    class Wrong(aggregate.Clipped):
        def on_host(self, logits):
            return clip_rows(logits, self.clip)

    def total(self, measure, *, clip, **more):
        return whole(self, Wrong(clip), clip=clip, **more)

    patch.setattr(batches.PrivateRows, "total", total)


def scores_doubled_at_one_step(patch: Patch) -> None:
    whole, asked = prism.token_scores, iter(range(10**6))

    def scores(config, private, public):
        found = whole(config, private, public)
        return 2 * found if next(asked) % config.max_tokens == config.max_tokens - 1 else found

    patch.setattr(prism, "token_scores", scores)


def private_row_in_the_public_one(patch: Patch) -> None:
    whole = batched.Writer.__init__

    def init(self, recorder, model, batch, rows, **more):
        whole(self, recorder, model, batch, rows, **more)
        if batch.members:
            shown = rows.row(model.encode(batch.members[0].record.text))
            self.public = model.start([shown], width=rows.width)

    patch.setattr(batched.Writer, "__init__", init)


def _present(private) -> int:
    return max(1, sum(count for _, count in private._parts))


def mean_over_present_records(patch: Patch) -> None:
    whole = prism.token_scores

    def scores(config, private, public):
        fewer = config.model_copy(update={"batch_size": _present(private)})
        return whole(fewer, private, public) * config.batch_size // fewer.batch_size

    patch.setattr(prism, "token_scores", scores)


def dummy_rows_count(patch: Patch) -> None:
    def logits(self):
        for decoding, _ in self._parts:
            yield decoding.logits

    patch.setattr(batches.PrivateRows, "logits", logits)


def private_half_not_halved(patch: Patch) -> None:
    patch.setattr(
        aggregate,
        "blend",
        lambda private, public, *, batch_size: 2 * private + np.int64(batch_size) * public.astype(np.int64),
    )


def no_maximum_taken_off(patch: Patch) -> None:
    """Clipping to [−c, c] is left to the cast: the row's own level, and all below −c, wrap or pass."""

    def clip_rows(logits, clip):
        sound = np.isfinite(logits.max(axis=1))
        grid = np.where(sound[:, None], np.minimum(logits, np.float32(clip)), 0.0) * aggregate.GRID
        return np.nan_to_num(grid, neginf=-1e12).astype(np.int64), sound

    _measure_private_rows(patch, clip_rows)


def two_rows_for_a_long_record(patch: Patch) -> None:
    whole = batches.PrivateRows.__init__

    def init(self, model, rows, texts, **shape):
        cut = [piece for text in texts for piece in _pieces(text, rows.max_record_tokens)]
        whole(self, model, rows, cut, **shape)

    patch.setattr(batches.PrivateRows, "__init__", init)


def _pieces(text: str, longest: int) -> list[str]:
    """A record that is too long comes in two halves, each with its beginning."""
    return [text, text[:1] + text[len(text) // 2 :]] if len(text.split()) > longest else [text]


def repeated_first_minibatch(patch: Patch) -> None:
    whole = batches.PrivateRows.__init__

    def init(self, model, rows, texts, **shape):
        whole(self, model, rows, texts, **shape)
        self._parts = self._parts[:1] + self._parts

    patch.setattr(batches.PrivateRows, "__init__", init)


def record_in_every_batch(patch: Patch) -> None:
    whole = batches.assign

    def assign(records, *, labels, samples_per_label, buckets, key, across_labels):
        found = whole(records, labels=labels, samples_per_label=1, buckets=1, key=key, across_labels=across_labels)
        return tuple(
            batches.Batch(batch.label, sample, batch.members) for batch in found for sample in range(samples_per_label)
        )

    patch.setattr(batches, "assign", assign)


def sure_tokens_are_free(patch: Patch) -> None:
    """Where the best score leads by more than noise could change, it is taken without asking."""
    whole = Recorder.draw

    def draw(self, path, spec, scores):
        ordered = np.sort(scores)
        if ordered[-1] - ordered[-2] > float(spec.temperature):
            self.trace.append({"event": "note"})
            return int(scores.argmax())
        return whole(self, path, spec, scores)

    patch.setattr(Recorder, "draw", draw)


def ends_when_the_private_rows_do(patch: Patch) -> None:
    whole = prism._Writer.token

    def token(self):
        best = {int(row.argmax()) for part in self.private.logits() for row in part}
        return None if len(best) > 1 else whole(self)

    patch.setattr(prism._Writer, "token", token)


def best_private_token_at_the_end(patch: Patch) -> None:
    """The last token comes from the scores themselves, beside the release."""
    whole = batched.Writer.write

    def write(self, **more):
        made = whole(self, **more)
        rows = [row for part in self.private.logits() for row in part]
        best = int(np.mean(rows, axis=0).argmax()) if rows else 0
        return made.__class__(made.label, made.number, made.text, (*made.tokens[:-1], best), made.stopped)

    patch.setattr(batched.Writer, "write", write)


def batches_by_position(patch: Patch) -> None:
    whole = batches.assign

    def assign(records, *, labels, samples_per_label, buckets, key, across_labels):
        found = {(label, sample): [] for label in labels for sample in range(samples_per_label)}
        for number, record in enumerate(records):
            alone = whole([record], labels=[record.label], samples_per_label=1, buckets=1, key=key)
            place = (record.label, number % buckets)
            if place in found:
                found[place].extend(member for batch in alone for member in batch.members)
        return tuple(batches.Batch(*place, tuple(members)) for place, members in found.items())

    patch.setattr(batches, "assign", assign)


def last_minibatch_lost(patch: Patch) -> None:
    whole = batches.PrivateRows.__init__

    def init(self, model, rows, texts, *, minibatch_rows, max_tokens):
        whole(self, model, rows, texts, minibatch_rows=minibatch_rows, max_tokens=max_tokens)
        self._parts = self._parts[: len(texts) // minibatch_rows]

    patch.setattr(batches.PrivateRows, "__init__", init)


def padded_to_the_longest(patch: Patch) -> None:
    patch.setattr(batches, "PrivateRows", Longest)


def minibatches_of_the_rows_that_are_there(patch: Patch) -> None:
    patch.setattr(batches, "PrivateRows", Ragged)


def public_prompt_in_the_private_batch(patch: Patch) -> None:
    patch.setattr(batches, "PrivateRows", WithPublic)


def _at_temperature(value: float):
    def plant(patch: Patch) -> None:
        whole = prism.mechanism

        def mechanism(config, *, relation):
            return whole(config.model_copy(update={"temperature": value}), relation=relation)

        patch.setattr(prism, "mechanism", mechanism)

    return plant


# --- InvisibleInk ----------------------------------------------------------------------------------------------


def ink_clipped_above_only(patch: Patch) -> None:
    def clip_difference(logits, public, *, clip):
        sound = np.isfinite(logits.max(axis=1))
        with np.errstate(invalid="ignore"):
            grid = (logits - np.where(sound[:, None], logits.max(axis=1, keepdims=True), 0.0)) - (public - public.max())
        held = np.minimum(np.nan_to_num(grid, neginf=-1e6), clip) * aggregate.GRID
        whole = np.rint(held).astype(np.int64)
        whole[~sound] = 0
        return whole, sound

    patch.setattr(invisible_ink, "clip_difference", clip_difference)


def ink_support_of_the_private_mean(patch: Patch) -> None:
    whole, seen = batches.PrivateRows.logits, []

    def logits(self):
        seen[:] = [row for part in whole(self) for row in part]
        return iter([np.stack(seen)] if seen else [])

    keep = invisible_ink.support

    def support(public, **more):
        rows = [invisible_ink.public_grid(row) for row in seen if np.isfinite(row.max()) and not np.isnan(row).any()]
        return keep(np.sum([public, *rows], axis=0) // (1 + len(rows)), **more)

    original = invisible_ink._Writer.token

    def token(self):
        list(self.private.logits())
        return original(self)

    patch.setattr(batches.PrivateRows, "logits", logits)
    patch.setattr(invisible_ink, "support", support)
    patch.setattr(invisible_ink._Writer, "token", token)


def ink_around_the_private_mean(patch: Patch) -> None:
    """Rows are clipped about the first of them instead of the public row: it enters all differences."""
    whole = invisible_ink.clip_difference

    def clip_difference(logits, public, *, clip):
        centre = logits[0] if len(logits) and np.isfinite(logits[0]).all() else public
        return whole(logits, centre, clip=clip)

    patch.setattr(invisible_ink, "clip_difference", clip_difference)


def ink_bound_of_the_other_formula(patch: Patch) -> None:
    """C is taken for the bound of the mean, and each row is clipped to s·C/2."""
    whole = invisible_ink.clip_difference
    patch.setattr(
        invisible_ink, "clip_difference", lambda logits, public, *, clip: whole(logits, public, clip=3 * clip)
    )


def ink_mean_over_present(patch: Patch) -> None:
    whole = invisible_ink._Writer.token

    def token(self):
        config = self.config
        self.config = config.model_copy(update={"batch_size": _present(self.private)})
        self.__dict__["_spec"] = invisible_ink.mechanism(config, relation=self.recorder.relation)
        try:
            return whole(self)
        finally:
            self.config = config

    patch.setattr(invisible_ink._Writer, "token", token)


# --- private prediction ----------------------------------------------------------------------------------------


def distance_of_the_mean_logits(patch: Patch) -> None:
    def distance(private, public, *, batch_size):
        rows = [np.nan_to_num(row, posinf=50.0, neginf=-1e4) for part in private for row in part]
        mean = np.sum(rows, axis=0) / batch_size if rows else np.zeros_like(public)
        mine = probabilities.on_simplex(np.asarray(mean, dtype=np.float32))
        return int(batch_size * abs(mine - probabilities.on_simplex(public)).sum())

    patch.setattr(private_prediction, "distance", distance)


def distance_over_present(patch: Patch) -> None:
    whole = private_prediction.distance

    def distance(private, public, *, batch_size):
        parts = list(private)
        present = max(1, sum(map(len, parts)))
        return whole(parts, public, batch_size=present) * batch_size // present

    patch.setattr(private_prediction, "distance", distance)


def threshold_from_the_data(patch: Patch) -> None:
    whole = above_threshold.SparseVector.against

    def against(spec, threshold):
        return whole(spec, threshold + _Counted.rows * probabilities.GRID // 8)

    patch.setattr(above_threshold.SparseVector, "against", against)
    patch.setattr(batches, "PrivateRows", _Counted)


class _Counted(batches.PrivateRows):
    rows = 0

    def __init__(self, model, rows, texts, **shape):
        _Counted.rows = len(texts)
        super().__init__(model, rows, texts, **shape)


def free_token_from_the_private_rows(patch: Patch) -> None:
    def public_token(self, tokens):
        rows = [row for part in self.private.logits() for row in part]
        return int(tokens[np.sum([self.public.logits[0], *rows], axis=0)[tokens].argmax()])

    patch.setattr(private_prediction._Writer, "_public_token", public_token)


def support_of_a_private_row(patch: Patch) -> None:
    whole = private_prediction._Writer._private_token

    def token(self, tokens):
        rows = [row for part in self.private.logits() for row in part if np.isfinite(row).all()]
        if rows:
            best = np.argsort(-rows[0], kind="stable")[: len(tokens) - 1]
            tokens = np.unique(np.append(best, tokens[:1]))
        return whole(self, tokens)

    patch.setattr(private_prediction._Writer, "_private_token", token)


def one_run_for_all_tokens(patch: Patch) -> None:
    """The sparse vector is begun once, and its answers go on after the first "above"."""
    whole = private_prediction._Writer._differs

    def differs(self, tokens):
        scan = self._scan
        above = whole(self, tokens)
        if scan is not None:
            self._scan = scan
        return above

    patch.setattr(private_prediction._Writer, "_differs", differs)


def token_mean_not_clipped_to_its_half(patch: Patch) -> None:
    """PRISM's range, 2·c/(2·s), where nothing is blended and nothing halved: half the temperature that it takes."""
    whole = private_prediction.token_mechanism

    def mechanism(config, *, relation):
        spec = whole(config, relation=relation)
        return spec.__class__(width=Fraction(spec.width) / 2, temperature=Fraction(spec.temperature) / 2)

    patch.setattr(private_prediction, "token_mechanism", mechanism)


PLANTS = (
    Plant(
        "clip-after-the-sum",
        "the mean of the rows is clipped, not each row",
        PRISM,
        clip_after_the_sum,
        "sensitivity check",
    ),
    Plant("bound-doubled", "private rows are clipped at twice the bound", PRISM, bound_doubled, "sensitivity check"),
    Plant(
        "doubled-at-one-step",
        "the scores of the last token are doubled",
        PRISM,
        scores_doubled_at_one_step,
        "sensitivity check",
    ),
    Plant(
        "private-row-in-public",
        "the public row is the first record's",
        PRISM,
        private_row_in_the_public_one,
        "sensitivity check",
    ),
    Plant(
        "mean-over-present",
        "the mean is over the records that are there",
        PRISM,
        mean_over_present_records,
        "sensitivity check",
    ),
    Plant(
        "dummy-rows-count", "rows that fill a minibatch up have weight 1", PRISM, dummy_rows_count, "sensitivity check"
    ),
    Plant(
        "not-halved", "the private half of the blend counts twice", PRISM, private_half_not_halved, "sensitivity check"
    ),
    Plant(
        "no-maximum-taken-off",
        "a row is clipped as it is, above only",
        PRISM,
        no_maximum_taken_off,
        "sensitivity check",
    ),
    Plant(
        "long-record-twice",
        "a record that is too long becomes two rows",
        PRISM,
        two_rows_for_a_long_record,
        "sensitivity check",
    ),
    Plant(
        "minibatch-twice", "the first minibatch is summed twice", PRISM, repeated_first_minibatch, "sensitivity check"
    ),
    Plant(
        "in-every-batch",
        "a record is in the batch of every text of its label",
        PRISM,
        record_in_every_batch,
        "sensitivity check",
    ),
    Plant(
        "sure-tokens-free", "a clear winner is taken without a draw", PRISM, sure_tokens_are_free, "sensitivity check"
    ),
    Plant(
        "private-end",
        "a text ends where private rows disagree",
        PRISM,
        ends_when_the_private_rows_do,
        "sensitivity check",
    ),
    Plant(
        "last-token-beside",
        "the last token is the private argmax",
        PRISM,
        best_private_token_at_the_end,
        "sensitivity check",
    ),
    Plant(
        "batches-by-position",
        "a record's batch is its number modulo the buckets",
        PRISM,
        batches_by_position,
        "neighbour test",
    ),
    Plant("rows-lost", "minibatches are counted by floor division", PRISM, last_minibatch_lost, "trace check"),
    Plant("padded-to-longest", "rows are padded to the longest record", PRISM, padded_to_the_longest, "neighbour test"),
    Plant(
        "ragged-minibatch",
        "a minibatch has as many rows as there are records",
        PRISM,
        minibatches_of_the_rows_that_are_there,
        "neighbour test",
    ),
    Plant(
        "public-in-batch",
        "the public prompt runs among the private ones",
        PRISM,
        public_prompt_in_the_private_batch,
        "neighbour test",
    ),
    Plant(
        "hotter-than-stated",
        "the temperature is a number in the code, hotter than certified",
        PRISM,
        _at_temperature(0.8),
        "trace check",
    ),
    Plant(
        "colder-than-stated",
        "the temperature is a number in the code, colder than certified",
        PRISM,
        _at_temperature(0.2),
        "permit",
    ),
    Plant(
        "ink-clipped-above-only", "differences have no lower bound", INK, ink_clipped_above_only, "sensitivity check"
    ),
    Plant(
        "ink-private-support",
        "the eligible tokens are those of the private mean",
        INK,
        ink_support_of_the_private_mean,
        "sensitivity check",
    ),
    Plant(
        "ink-private-centre",
        "rows are clipped about a private row",
        INK,
        ink_around_the_private_mean,
        "sensitivity check",
    ),
    Plant(
        "ink-bound-tripled",
        "rows are clipped at three times the bound",
        INK,
        ink_bound_of_the_other_formula,
        "sensitivity check",
    ),
    Plant("ink-mean-over-present", "s is how many records there are", INK, ink_mean_over_present, "sensitivity check"),
    Plant(
        "distance-of-mean-logits",
        "the distance is that of the softmax of mean logits",
        PREDICTION,
        distance_of_the_mean_logits,
        "sensitivity check",
    ),
    Plant(
        "distance-over-present",
        "the distance's mean is over the records that are there",
        PREDICTION,
        distance_over_present,
        "sensitivity check",
    ),
    Plant(
        "threshold-from-data",
        "the threshold grows with the number of records",
        PREDICTION,
        threshold_from_the_data,
        "sensitivity check",
    ),
    Plant(
        "free-token-private",
        "free tokens are drawn from private rows",
        PREDICTION,
        free_token_from_the_private_rows,
        "sensitivity check",
    ),
    Plant(
        "support-of-private-row",
        "private tokens are drawn among a record's best",
        PREDICTION,
        support_of_a_private_row,
        "sensitivity check",
    ),
    Plant(
        "scan-goes-on",
        'a sparse vector answers on after its last "above"',
        PREDICTION,
        one_run_for_all_tokens,
        "permit",
    ),
    Plant(
        "range-of-another",
        "PRISM's halved range for a mean that nothing halves",
        PREDICTION,
        token_mean_not_clipped_to_its_half,
        "sensitivity check",
    ),
)
