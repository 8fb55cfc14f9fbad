"""What the pages tell a reader to type is typed: every ``console`` and ``sh`` block of every page, in order.

One page is one reader: one folder, in which ``docs`` and ``front`` of the repository can be read, and one home.
Every run file names the toy model in place of the large one; the entropy is the same in every run. Each command has to
succeed, and what a ``console`` block shows below a command has to be what it prints (``...`` stands for anything).

HTML comments, which no reader sees, say what the page leaves to him. They stand directly before a block:

    <!-- not run: WHY -->            the block is not run; its commands and options must exist all the same
    <!-- file: NAME -->              the block is what the reader has in the file NAME (first: the first of it)
    <!-- answers: y -->              what he answers at a terminal, a line a question
    <!-- exits: 5 -->                one command of the block ends with this code, and none with another but 0
    <!-- before: COMMANDS -->        what he has done before, in words of the page
    <!-- slow: WHY -->               the page is followed by the slow tests

``make`` lines are not run: the targets must exist, and CI runs them.
"""

from __future__ import annotations

import doctest
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from affidavit.cli import run

ROOT = Path(__file__).resolve().parents[2]
NOTE = re.compile(r"<!--\s*(not run|file|answers|exits|before|slow):\s*(.*?)\s*-->", re.DOTALL)
OF_THE_SHELL = re.compile(r"[|<>;&$`*?~()\\\n]")
LARGE, SMALL = '"smollm2-135m"', '"toy"'


@dataclass(frozen=True)
class Block:
    """One fenced block, its first line in the page, and the notes before it."""

    language: str
    body: str
    line: int
    notes: dict[str, str]


def blocks_of(text: str) -> Iterator[Block]:
    """The fenced blocks of a page, also those in lists."""
    notes: dict[str, str] = {}
    for token in MarkdownIt("commonmark").parse(text):
        if token.type == "html_block":
            notes |= dict(NOTE.findall(token.content))
        elif token.type == "fence":
            yield Block(token.info.split(" ")[0], token.content, (token.map or [0])[0] + 1, notes)
            notes = {}
        elif token.nesting >= 0 and token.type.endswith("_open") and not token.type.startswith("list"):
            notes = {}


def pages() -> list[Path]:
    """Every page that a reader may follow."""
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def commands(body: str, language: str) -> Iterator[tuple[str, str | None]]:
    """Each whole command with what is shown below it; None where the block shows no output."""
    if language == "sh":
        yield from ((command, None) for command in _whole(body.splitlines()))
        return
    typed: list[str] = []
    shown = ""
    for line in body.splitlines(keepends=True):
        if line.startswith("$ ") and not (typed and _is_open("\n".join(typed))):
            if typed:
                yield "\n".join(typed), shown
            typed, shown = [line[2:].rstrip("\n")], ""
        elif typed and _is_open("\n".join(typed)):
            typed.append(line.removeprefix("> ").rstrip("\n"))
        else:
            shown += line
    if typed:
        yield "\n".join(typed), shown


def _whole(lines: list[str]) -> Iterator[str]:
    """Lines joined until bash takes them as complete: continued lines, here-documents, loops."""
    so_far = ""
    for line in lines:
        so_far = f"{so_far}\n{line}" if so_far else line
        if not _is_open(so_far):
            if _words(so_far) != []:
                yield so_far
            so_far = ""
    assert not so_far, f"not a whole command: {so_far}"


def _is_open(text: str) -> bool:
    if text.endswith("\\"):
        return True
    checked = subprocess.run(["bash", "-n", "-c", text], capture_output=True, text=True, check=False)
    return checked.returncode != 0 or "here-document" in checked.stderr


def _words(text: str) -> list[str] | None:
    """The words of a plain command; None for what only a shell can read."""
    joined = text.replace("\\\n", " ")
    bare = re.sub(r"'[^']*'|\"[^\"$`]*\"|#.*$", "", joined, flags=re.MULTILINE)
    return None if OF_THE_SHELL.search(bare) else shlex.split(joined, comments=True)


class Reader:
    """Types commands in a folder of his own."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.capsys, self.monkeypatch = folder, capsys, monkeypatch
        for name in ("docs", "front"):
            (folder / name).symlink_to(ROOT / name)
        monkeypatch.chdir(folder)
        monkeypatch.setenv("HOME", str(folder / "home"))
        monkeypatch.setenv("AFFIDAVIT_HOME", str(folder / "home" / "affidavit"))
        monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
        for name in ("CI", "AFFIDAVIT_LEDGER", "GITHUB_STEP_SUMMARY"):
            monkeypatch.delenv(name, raising=False)

    def types(self, command: str, *, answers: str = "") -> tuple[int, str, str]:
        """The exit code, and what stood on stdout and stderr."""
        self._small_models()
        words = _words(command)
        if not words or words[0] != "affidavit":
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", command], capture_output=True, text=True, check=False
            )
            return done.returncode, done.stdout, done.stderr
        self.monkeypatch.setattr(
            sys, "stdin", Terminal("\n".join(answers.split()) + "\n") if answers else io.StringIO()
        )
        self.capsys.readouterr()
        code = run(words[1:])
        printed = self.capsys.readouterr()
        return code, printed.out, printed.err

    def _small_models(self) -> None:
        for path in self.folder.glob("*.toml"):
            text = path.read_text(encoding="utf-8")
            if LARGE in text:
                path.write_text(text.replace(LARGE, SMALL), encoding="utf-8")


class Terminal(io.StringIO):
    """Standard input with somebody at it."""

    def isatty(self) -> bool:
        return True


def _follow(block: Block, reader: Reader, place: str) -> None:
    expected = {0, *(int(code) for code in block.notes.get("exits", "0").split(","))}
    seen = set()
    for command, shown in commands(block.body, block.language):
        if command.startswith("make "):
            continue
        code, out, err = reader.types(command, answers=block.notes.get("answers", ""))
        assert code in expected, f"{place}: exit {code} of {command}\n{out}{err}"
        seen.add(code)
        if shown is not None:
            matches = [doctest.OutputChecker().check_output(shown, text, doctest.ELLIPSIS) for text in (out, out + err)]
            assert any(matches), f"{place}: {command} prints\n{out}{err}"
    assert seen >= expected - {0}, f"{place}: no command exits with {expected - {0}}"


def runs(block: Block) -> bool:
    return block.language in {"sh", "console"} and "not run" not in block.notes


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def _followed() -> Iterator[Any]:
    for page in pages():
        blocks = list(blocks_of(page.read_text(encoding="utf-8")))
        if any(runs(block) for block in blocks):
            slow = any("slow" in block.notes for block in blocks)
            yield pytest.param(page, id=_name(page), marks=[pytest.mark.slow] if slow else [])


@pytest.mark.parametrize("page", list(_followed()))
def test_what_a_page_tells_to_type_works(page, tmp_path, monkeypatch, capsys, same_entropy):
    reader = Reader(tmp_path, capsys, monkeypatch)
    blocks = list(blocks_of(page.read_text(encoding="utf-8")))
    for block in reversed(blocks):
        if "file" in block.notes:
            Path(block.notes["file"]).write_text(block.body, encoding="utf-8")
    for block in blocks:
        place = f"{_name(page)}:{block.line}"
        for command in _whole(block.notes.get("before", "").splitlines()):
            code, out, err = reader.types(command)
            assert code == 0, f"{place}, before it: {command}\n{out}{err}"
        if "file" in block.notes:
            Path(block.notes["file"]).write_text(block.body, encoding="utf-8")
        if runs(block):
            _follow(block, reader, place)


@pytest.mark.parametrize("page", pages(), ids=_name)
def test_a_block_that_is_not_run_says_why(page):
    for block in blocks_of(page.read_text(encoding="utf-8")):
        assert block.language, f"{page}:{block.line}: a fenced block names its language"
        if "not run" in block.notes:
            assert len(block.notes["not run"].split()) >= 3, f"{page}:{block.line}"
            assert block.language in {"sh", "console"}, f"{page}:{block.line}: only commands are run"


def test_a_wrong_output_and_a_failing_command_are_noticed(tmp_path, monkeypatch, capsys):
    reader = Reader(tmp_path, capsys, monkeypatch)
    page = "```console\n$ echo one\ntwo\n```\n\n```sh\naffidavit epsilon no-such-plan.json\n```\n"
    page += "\n<!-- exits: 3 -->\n```sh\ntrue\n```\n"
    for block in blocks_of(page):
        with pytest.raises(AssertionError):
            _follow(block, reader, "here")


def test_commands_are_read_as_a_shell_reads_them():
    script = "for n in 1 2; do\n  echo $n\ndone\ncat > a.txt <<'EOF'\n$ not a command\nEOF\n"
    script += "affidavit plan \\\n  run.toml  # a run\n\n# nothing\n"
    found = [command for command, _ in commands(script, "sh")]
    assert len(found) == 3
    assert _words(found[2]) == ["affidavit", "plan", "run.toml"]
    assert _words(found[0]) is None
    shown = list(commands("$ affidavit sigma --epsilon 1\n1.4\n$ true\n", "console"))
    assert shown == [("affidavit sigma --epsilon 1", "1.4\n"), ("true", "")]
