"""Packages that only some work needs, and the command that installs them.

The core computes, certifies, verifies and keeps the ledger; what else is imported belongs to an extra of
pyproject.toml. Work that needs such a package asks for it by ``require`` before it begins, so that nothing
is drawn, charged or asked of a model first. The imports themselves stand inside functions.
"""

from __future__ import annotations

import importlib.util
import shlex
import shutil
import sys
from collections.abc import Mapping

from affidavit.accountant.errors import PackageMissing

__all__ = ["EXTRAS", "install", "pip_install", "require"]

_AUDIT = "email_validator idna jinja2 linkify_it markupsafe matplotlib phonenumbers stdnum"
_LLM = "accelerate safetensors torch transformers"
_MODULES = {
    "audit": _AUDIT,
    "icl": "jsonschema matplotlib nltk rouge_score sacrebleu",
    "server": "httpx2",
    "inspect": "inspect_ai",
    "cluster": "ray",
    "llm": _LLM,
    "demo": f"{_AUDIT} {_LLM} gguf",
    "names": "presidio_analyzer spacy",
    "postgres": "psycopg",
    "parquet": "pyarrow",
    "opinions": "autodp prv_accountant",
}
_INSTALLED_AS = {"linkify_it": "linkify-it-py", "stdnum": "python-stdnum"}

EXTRAS: Mapping[str, Mapping[str, str]] = {
    extra: {name: _INSTALLED_AS.get(name, name.replace("_", "-")) for name in names.split()}
    for extra, names in _MODULES.items()
}
"""Each extra's modules, as they are imported and as they are installed."""


def require(extra: str, *modules: str, purpose: str) -> None:
    """Raises ``PackageMissing``, naming them, where modules of ``extra`` are not installed. Imports none.

    ``purpose`` is what needs them. Without ``modules``: all of the extra's.
    """
    named = EXTRAS[extra]
    missing = [named[module] for module in modules or named if importlib.util.find_spec(module) is None]
    if missing:
        raise PackageMissing(
            f"{purpose} needs what is not installed here: {', '.join(missing)}", hint=f"Run `{install(extra)}`"
        )


def install(extra: str) -> str:
    """The command that adds an extra to the affidavit that is running, from wherever that was installed.

    pip takes the extra's requirements from what is installed already, be it a wheel or a checkout.
    """
    return f"{pip_install()} 'affidavit[{extra}]'"


def pip_install() -> str:
    """The beginning of a command that installs into the environment that is running, with or without pip in it."""
    python = shlex.quote(sys.executable)
    if importlib.util.find_spec("pip") is not None:
        return f"{python} -m pip install"
    if shutil.which("uv") is not None:
        return f"uv pip install --python {python}"
    return f"{python} -m ensurepip && {python} -m pip install"
