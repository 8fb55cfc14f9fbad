"""The reference attack: the same model with and without the private context.

How probable a text is says more about the text than about the prompt. The difference between
its log-likelihood with the released context and without it cancels the former: what is left is
what the context told the model. (The idea of calibrating by a reference model: Carlini et al.
2021, Watson et al. 2022; here the reference is the model itself, unprompted.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from affidavit.audits.attacks.caching import Memory
from affidavit.audits.attacks.prompting import LabelPrompt, text_log_likelihoods
from affidavit.audits.attacks.protocol import View, access, text_model
from affidavit.audits.textmodel import Record, TextModel

__all__ = ["Reference"]


@dataclass(slots=True)
class Reference:
    """Score: ln P(text | context) − ln P(text | no context), in nats a character.

    The second term does not depend on the run: it is computed once a record and kept.
    ``reference`` is the model that gives it: the audited model itself unless another is named,
    as it must be when that one is an endpoint, which never answers without its demonstrations.
    """

    name = "reference"
    needs = access("log-probabilities")

    prompt: LabelPrompt = field(default_factory=LabelPrompt)
    reference: TextModel | None = None
    clean: Memory[tuple[str, Record], float] = field(default_factory=Memory, init=False, repr=False)

    def scores(self, view: View, records: Sequence[Record]) -> list[float]:
        """Higher says "member"."""
        model = self.reference or text_model(view, self.name)

        def unprompted(keys: list[tuple[str, Record]]) -> list[float]:
            return text_log_likelihoods(View((), model), self.prompt, [record for _, record in keys], attack=self.name)

        without = self.clean.get([(model.digest, record) for record in records], unprompted)
        with_context = text_log_likelihoods(view, self.prompt, records, attack=self.name)
        return [
            (primed - plain) / max(1, len(self.prompt.shown(record.text)))
            for primed, plain, record in zip(with_context, without, records, strict=True)
        ]
