"""The reference attack: the same model with and without the private context.

How probable a text is says more about the text than about the prompt. The difference between
its log-likelihood with the released context and without it cancels the former: what is left is
what the context told the model. (The idea of calibrating by a reference model: Carlini et al.
2021, Watson et al. 2022; here the reference is the model itself, unprompted.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from affidavit.audits.attacks.prompting import LabelPrompt, model_of
from affidavit.audits.attacks.protocol import Access, View
from affidavit.audits.textmodel import Record

__all__ = ["Reference"]


@dataclass(slots=True)
class Reference:
    """Score: log P(text | context) − log P(text | no context), in nats a character.

    The second term does not depend on the run: it is computed once a record and kept.
    """

    name: ClassVar[str] = "reference"
    needs: ClassVar[frozenset[Access]] = frozenset({"log-probabilities"})

    prompt: LabelPrompt = field(default_factory=LabelPrompt)
    _clean: dict[tuple[str, str, str], float] = field(default_factory=dict, init=False, repr=False)

    def scores(self, view: View, records: Sequence[Record]) -> list[float]:
        """Higher says "member"."""
        model = model_of(view, self.name)
        keys = [(model.digest, record.id, record.text) for record in records]
        fresh = {key: record for key, record in zip(keys, records, strict=True) if key not in self._clean}
        pairs = [self.prompt.continuation((), record.text) for record in fresh.values()]
        if pairs:
            prompts, texts = zip(*pairs, strict=True)
            self._clean.update(zip(fresh, model.log_likelihoods(prompts, texts), strict=True))
        pairs = [self.prompt.continuation(view.texts, record.text) for record in records]
        with_context = model.log_likelihoods([prompt for prompt, _ in pairs], [text for _, text in pairs])
        return [
            (primed - self._clean[key]) / max(1, len(text))
            for primed, key, (_, text) in zip(with_context, keys, pairs, strict=True)
        ]
