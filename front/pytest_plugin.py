"""A pytest plugin: certificates and audits as fixtures and assertions.

    from affidavit.pytest_plugin import assert_consistent, assert_no_pii

    def test_the_certificate_holds():
        assert_consistent("audit.toml", certificate="certificate.json")

    def test_nobody_is_named():
        assert_no_pii(Path("out/synthetic.jsonl"))

Fixtures: ``dp_certificate``, the certificate that ``--dp-certificate`` (or the ini option ``dp_certificate``) names,
checked; ``dp_ledger``, an empty ledger with keys of its own. Marker: ``slow_audit``, run with ``--slow-audits`` only.
What the assertions saw is written to ``--dp-sarif`` and ``--dp-summary``, and to GitHub's job summary.

Failures name outcomes, digests and positions, never text; their frames are hidden, so that
``--showlocals`` does not show it either. Nothing but pytest is imported until a test asks for something.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from affidavit.accountant.attestation.statement import Certificate
    from affidavit.accountant.ledger import Ledger
    from affidavit.audits.checks import CheckReport
    from affidavit.audits.findings import Findings
    from affidavit.audits.pii import IdentifierKind

__all__ = ["assert_consistent", "assert_no_pii"]

_XDIST = "affidavit_findings"
_seen: list[Findings] = []
"""What this process's assertions looked at, in order."""


def assert_consistent(
    source: Findings | CheckReport | Path | str,
    *,
    certificate: Path | str | None = None,
    run: Path | str | None = None,
    allow_underpowered: bool = False,
) -> Findings:
    """Fail unless the findings contradict nothing and could have.

    source: findings or a report of checks; a findings.json or a folder of them; or an AUDIT.toml, which is run now,
    against ``certificate`` and ``run`` (run.toml beside it). An audit without power fails as well, unless
    ``allow_underpowered`` or its policy says otherwise. Returns the findings. Raises ``AffidavitError`` kinds.
    """
    __tracebackhide__ = True
    findings = _findings(source, certificate=_path(certificate), run=_path(run))
    if allow_underpowered:
        from dataclasses import replace

        findings = replace(findings, policy=replace(findings.policy, allow_underpowered=True))
    _note(findings)
    if findings.exit_code:
        lines = [f"{outcome}: {reason}" for outcome, reason in findings.outcomes()]
        pytest.fail("\n".join(["the audit does not hold:", *lines]), pytrace=False)
    return findings


def assert_no_pii(
    source: str | Path,
    *,
    kinds: Iterable[IdentifierKind] = ("email", "phone"),
    allowed: Sequence[str] = (),
    region: str = "US",
) -> None:
    """Fail if a text, or a file's texts, hold an identifier.

    source: a text; or a ``Path`` to JSON Lines with a ``text`` (as ``generate`` writes), or to plain text. ``allowed``:
    identifiers that may stand there, however written (a help desk's own address). The failure says kind and
    position, and names each identifier by a digest that is good for this failure only.
    """
    __tracebackhide__ = True
    from affidavit.audits.pii import Pseudonyms, find_mentions

    wanted = tuple(kinds)
    names = Pseudonyms()
    harmless = {mention.identifier for text in allowed for mention in find_mentions(text, kinds=wanted, region=region)}
    places = [
        f"{mention.identifier.kind} {names.of(mention.identifier)[:12]} in text {number}, characters "
        f"{mention.start} to {mention.end}"
        for number, text in enumerate(_texts(source))
        for mention in find_mentions(text, kinds=wanted, region=region)
        if mention.identifier not in harmless
    ]
    if places:
        pytest.fail("\n".join([f"{len(places)} identifiers in the text:", *places]), pytrace=False)


@pytest.fixture(scope="session")
def dp_certificate(pytestconfig: pytest.Config) -> Certificate:
    """The certificate under test: signature, signer and validity checked with the keys in AFFIDAVIT_HOME."""
    from affidavit.accountant.errors import CertificateMissing
    from affidavit.verification import verify

    option, ini = pytestconfig.getoption("--dp-certificate"), pytestconfig.getini("dp_certificate")
    if not option and not ini:
        raise CertificateMissing(
            "no certificate is named for the tests",
            hint="`pytest --dp-certificate certificate.json`, or dp_certificate in the pytest configuration.",
        )
    path = pytestconfig.invocation_params.dir / str(option) if option else pytestconfig.rootpath / str(ini)
    return verify(path).certificate


@pytest.fixture
def dp_ledger(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    """An empty ledger with keys of its own: what a test charges, nobody pays."""
    from affidavit.accountant.attestation.keys import Keyring
    from affidavit.accountant.ledger import Ledger

    home = tmp_path_factory.mktemp("affidavit-home")
    keyring = Keyring(home)
    keyring.init()
    return Ledger(keyring=keyring, url=f"sqlite:///{home / 'ledger.db'}")


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options."""
    group = parser.getgroup("affidavit", "privacy audits")
    group.addoption("--dp-certificate", metavar="CERT.json", help="The certificate that dp_certificate gives.")
    group.addoption("--slow-audits", action="store_true", help="Run tests marked slow_audit.")
    group.addoption("--dp-sarif", metavar="FILE", help="Write what the audits found as SARIF 2.1.0.")
    group.addoption("--dp-summary", metavar="FILE", help="Write what the audits found as Markdown.")
    parser.addini("dp_certificate", "The certificate that the fixture dp_certificate gives.", default="")


def pytest_configure(config: pytest.Config) -> None:
    """The marker; a new session has seen nothing."""
    config.addinivalue_line("markers", "slow_audit: an audit that takes long; run with --slow-audits")
    _seen.clear()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave slow audits out unless they are asked for."""
    if config.getoption("--slow-audits"):
        return
    for item in items:
        if item.get_closest_marker("slow_audit") is not None:
            item.add_marker(pytest.mark.skip(reason="a slow audit: run with --slow-audits"))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the files; a worker of pytest-xdist hands its findings to the controller instead."""
    if not _seen:
        return
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output[_XDIST] = [findings.to_json() for findings in _seen]
        return
    from affidavit.audits.formats import markdown, sarif
    from affidavit.writing import write_whole

    for option, render in (("--dp-sarif", sarif.render), ("--dp-summary", markdown.render)):
        named = session.config.getoption(option)
        if named:
            write_whole(Path(named), render(*_seen), private=True)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:  # noqa: ARG001 - the hook's signature
    """Take over what a worker of pytest-xdist saw."""
    from affidavit.audits.findings import parse

    _seen.extend(parse(text) for text in getattr(node, "workeroutput", {}).get(_XDIST, ()))


def _note(findings: Findings) -> None:
    from affidavit.audits.formats import summary

    _seen.append(findings)
    summary.append(findings)


def _path(named: Path | str | None) -> Path | None:
    return None if named is None else Path(named)


def _findings(source: Findings | CheckReport | Path | str, *, certificate: Path | None, run: Path | None) -> Findings:
    from affidavit import auditing
    from affidavit.audits import findings
    from affidavit.audits.auditfile import load_audit
    from affidavit.audits.checks import CheckReport

    if isinstance(source, CheckReport):
        return source.findings()
    if isinstance(source, findings.Findings):
        return source
    path = Path(source)
    if path.suffix == ".toml":
        from affidavit.runfile import load_run

        settings = auditing.strict_in_ci(load_audit(path))
        return auditing.audit(settings, load_run(run or path.parent / "run.toml"), certificate=certificate)
    if path.is_dir():
        return auditing.findings_in(path, certificate=certificate)
    return findings.read(path)


def _texts(source: str | Path) -> Sequence[str]:
    if isinstance(source, str):
        return (source,)
    if source.suffix == ".jsonl":
        from affidavit.records import read_texts

        return read_texts(source)
    return (source.read_text(encoding="utf-8"),)
