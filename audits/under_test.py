"""The run under test: what an attack may ask the generator behind a claim for.

The generators are not imported by the audits. Who audits one writes a class of this kind that overrides what its run
can do; what it leaves out is refused before anything is computed. All of it is run under the mechanism's own
randomness; ``seed`` is for tests only. What is made from private records stays with the operator: an audit spends no
budget because it releases nothing.
"""

# ruff: noqa: ARG002 - what is refused reads nothing

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from affidavit.accountant.errors import UsageError
from affidavit.audits.attacks.extraction import ExtractionPrompt
from affidavit.audits.textmodel import AnsweringModel, Record

if TYPE_CHECKING:
    from affidavit.audits.attacks.cases import Release
    from affidavit.audits.checks import CheckReport
    from affidavit.audits.experiments.registry import CheckName
    from affidavit.mechanisms.base import Noise

__all__ = ["Ability", "RunUnderTest"]

Ability: TypeAlias = Literal["generate", "demonstrate", "serve", "check"]

_FOR = {
    "generate": "writes no answer to a prompt, which extraction and canary ask for",
    "demonstrate": "makes no demonstrations, which membership attacks look at",
    "serve": 'serves no endpoint, which `through = "endpoint"` asks',
    "check": "cannot be checked on invented records",
}


class RunUnderTest:
    """A run that can do nothing; subclasses override what theirs can.

    ``release`` is the mechanism under the one-step audit (default: the package's own), ``noise`` where it draws
    from (default: the operating system).
    """

    __slots__ = ()

    release: Release | None = None
    noise: Noise | None = None

    def generate(
        self, records: Sequence[Record], prompt: ExtractionPrompt, *, max_tokens: int, epsilon: float, seed: int
    ) -> Sequence[str]:
        """Text made from records under protection, in answer to an extraction prompt."""
        raise _missing("generate")

    def demonstrate(self, records: Sequence[Record], *, epsilon: float, seed: int) -> Sequence[Record]:
        """Labelled demonstrations made from records under protection."""
        raise _missing("demonstrate")

    def serve(self, records: Sequence[Record], *, epsilon: float, seed: int) -> AnsweringModel:
        """A service that answers from records under protection; the caller never sees a demonstration."""
        raise _missing("serve")

    def check(self, name: CheckName) -> CheckReport:
        """A check of the generator's own code, on invented records."""
        raise _missing("check")

    def require(self, *abilities: Ability) -> None:
        """Raises ``UsageError`` where the run cannot do one of these."""
        for name in abilities:
            if getattr(type(self), name) is getattr(RunUnderTest, name):
                raise _missing(name)


def _missing(name: Ability) -> UsageError:
    return UsageError(f"the run under test {_FOR[name]}", hint=f"Define `{name}` in its class, a kind of RunUnderTest.")
