"""``affidavit data`` end to end, on invented originals in the real formats."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from affidavit.accountant.errors import AffidavitError
from affidavit.cli import run
from affidavit.datasets import catalogue, data_set, make
from affidavit.datasets.catalogue import DataSet, Original, Source

CANARY = "zqcanary"  # in every text of the invented originals
Originals = dict[str, bytes]
Write = Callable[[Originals, Path], list[Path]]
NAMES = [found.name for found in catalogue()]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def data(place: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def call(*words: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = run(["data", *map(str, words)])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


def _records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def test_every_data_set_has_invented_originals(invented: dict[str, Originals]) -> None:
    assert list(invented) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_an_original_becomes_files_with_the_fields_of_the_catalogue(
    name: str, place: Path, data: Any, invented: dict[str, Originals], write: Write
) -> None:
    originals = write(invented[name], place / "down")
    code, out, err = data("make", name, *originals, "--any-version")
    assert code == 0, err
    assert CANARY not in out + err
    wanted = data_set(name)
    assert wanted.warning in err
    assert bool(wanted.warning) == wanted.personal
    for file in wanted.files:
        records = _records(place / "data" / wanted.folder / file.name)
        assert records
        assert all(tuple(record) == file.fields for record in records), file.name
        assert CANARY in json.dumps(records)
    mode = stat.S_IMODE((place / "data" / wanted.folder / wanted.files[0].name).stat().st_mode)
    assert mode == (0o600 if wanted.personal else 0o644)
    note = (place / "data" / wanted.folder / wanted.note).read_text(encoding="utf-8")
    assert wanted.licence in note
    assert "another version" in note
    assert CANARY not in note


def test_what_the_converters_make_of_the_formats(
    place: Path, data: Any, invented: dict[str, Originals], write: Write
) -> None:
    for name in NAMES:
        assert data("make", name, *write(invented[name], place / "down" / name), "--any-version")[0] == 0
    made = place / "data"
    news = _records(made / "agnews" / "train.jsonl") + _records(made / "agnews" / "test.jsonl")
    by_text = {record["text"]: record["label"] for record in news}
    assert by_text[f'{CANARY} No 7. It rained on Monday\'s "7" fair.'] == "Technology"
    assert len(_records(made / "agnews" / "test.jsonl")) == 4  # one of each class: a quarter of six, cut
    (question, *_) = _records(made / "trec" / "train.jsonl")
    assert question == {
        "id": "trec-train-00000", "text": f'How did {CANARY}\'s "boat" sink, twice?', "label": "Description",
        "fine_label": "manner",
    }  # fmt: skip
    assert _records(made / "trec" / "test.jsonl")[0]["text"] == f"When was {CANARY} \N{REPLACEMENT CHARACTER} born?"
    genre, director = (_records(made / name / "train.jsonl") for name in ("mitg", "mitd"))
    assert [(r["label"], r["spans"]) for r in genre] == [("british horror comedy", ["british horror", "comedy"])]
    assert [(r["label"], r["spans"]) for r in director] == [("ada north", ["ada north"])]
    assert len(_records(made / "mitg" / "test.jsonl")) == 2
    assert len(_records(made / "dialogsum" / "train.jsonl")) == 3 + 3
    assert _records(made / "dialogsum" / "test.jsonl")[0]["references"] == [f"{k} {CANARY}" for k in (1, 2, 3)]
    asked = _records(made / "icliniq" / "train.jsonl") + _records(made / "icliniq" / "test.jsonl")
    assert len(asked) == 8
    assert {record["answer"] for record in asked} == {f"rest for a week, then walk a little every day, {CANARY}."}
    assert {record["label"] for record in asked} == {"knee", "none"}
    films = _records(made / "wikimovies" / "train.jsonl") + _records(made / "wikimovies" / "test.jsonl")
    assert len(films) == 35
    mail = _records(made / "enron" / "aeslc_train_pii.jsonl")
    assert [record["id"] for record in mail] == ["north-a_sent_3", "south-b_sent_2"]
    assert mail[0]["mailbox"] == "north-a"
    assert mail[0]["subject"] == f"On {CANARY}"


def test_the_same_again_changes_nothing_and_other_content_is_refused(
    place: Path, data: Any, invented: dict[str, Originals], write: Write
) -> None:
    (original,) = write(invented["agnews"], place)
    assert data("make", "agnews", original, "--any-version")[0] == 0
    first = (place / "data/agnews/train.jsonl").stat()
    code, out, _ = data("make", "agnews", original, "--any-version")
    assert code == 0
    assert out.count("there already") == 2
    assert (place / "data/agnews/train.jsonl").stat() == first
    original.write_bytes(original.read_bytes().replace(b"Monday", b"Tuesday"))
    code, out, err = data("make", "agnews", original, "--any-version")
    assert (code, out) == (2, "")
    assert (place / "data/agnews/train.jsonl").stat() == first
    (remedy,) = re.findall("`(.*)`", err)
    assert run(shlex.split(remedy)[1:]) == 0
    assert (place / "data-2/agnews/train.jsonl").exists()


def test_another_version_is_refused_with_both_digests_and_the_command_that_takes_it(
    place: Path, data: Any, invented: dict[str, Originals], write: Write
) -> None:
    folder = place / "two words"
    (original,) = write(invented["agnews"], folder)
    code, out, err = data("make", "agnews", original, "-o", "else where")
    assert (code, out) == (2, "")
    assert hashlib.sha256(original.read_bytes()).hexdigest() in err
    assert data_set("agnews").sources[0].originals[0].sha256 in err
    assert not (place / "else where").exists()
    remedy = re.findall("`(.*)`", err)[-1]
    assert run(shlex.split(remedy)[1:]) == 0
    assert (place / "else where/agnews/test.jsonl").exists()


@pytest.mark.parametrize("name", NAMES)
def test_without_originals_it_says_where_they_are_and_what_to_type(
    name: str, place: Path, data: Any, invented: dict[str, Originals], write: Write
) -> None:
    code, out, err = data("make", name)
    assert (code, out) == (2, "")
    assert data("make", name, *shlex.split(data_set(name).command())[4:])[2].endswith(err.partition("\n")[2])
    addresses = re.findall(r"^  (https://\S+)$", err, re.MULTILINE)
    (remedy,) = re.findall("`(.*)`", err)
    assert remedy == data_set(name).command()
    # The remedy as typed, where the downloads are called as they are at their address.
    named = shlex.split(remedy)[4:]
    assert named[0].startswith("AESLC-") or [address.rpartition("/")[2] for address in addresses] == named
    content = {name.replace("AESLC/", f"{named[0]}/"): body for name, body in invented[name].items()}
    write(content, place)
    assert run([*shlex.split(remedy)[1:], "--any-version"]) == 0


def test_one_of_two_originals_is_not_enough(
    place: Path, data: Any, invented: dict[str, Originals], write: Write
) -> None:
    train, _ = write(invented["trec"], place)
    code, _, err = data("make", "trec", train, "--any-version")
    assert code == 2
    assert "made from test.txt" in err


def test_an_original_without_a_record_for_a_file_is_refused(place: Path, data: Any, write: Write) -> None:
    write({"train": b"a:O film:O <=> <NULL>\n", "test": b"a:O comedy:B-Genre <=> <NULL>\n"}, place)
    code, _, err = data("make", "mitg", "train", "test", "--any-version")
    assert code == 2
    assert "no record for train.jsonl" in err


@pytest.mark.parametrize("given", ["folder", "copy of the repository", "other name"])
def test_an_original_is_found(given: str, place: Path, data: Any, invented: dict[str, Originals], write: Write) -> None:
    content = invented["agnews"]["test.csv"]
    path = {"folder": "test.csv", "copy of the repository": "data/agnews/test.csv", "other name": "news.csv"}[given]
    write({path: content}, place / "down")
    said = place / "down" / path if given == "other name" else place / "down"
    assert data("make", "agnews", said, "--any-version")[0] == 0


def test_an_official_file_has_no_header_and_its_first_row_is_a_record(
    place: Path, data: Any, invented: dict[str, Originals], write: Write
) -> None:
    _, _, rows = invented["agnews"]["test.csv"].partition(b"\n")
    write({"test.csv": rows}, place)
    assert data("make", "agnews", "test.csv", "--any-version")[0] == 0
    assert sum(len(_records(place / "data/agnews" / f"{part}.jsonl")) for part in ("train", "test")) == 24


def _as_known(name: str, originals: Originals) -> DataSet:
    """The data set as if these originals, and what is made of them, were the known ones."""
    wanted = data_set(name)
    known = tuple(
        Original(path, hashlib.sha256(content).hexdigest(), len(content)) for path, content in originals.items()
    )
    return replace(wanted, sources=(Source("https://example.org", "", known, {}),))


def test_a_known_original_whose_files_come_out_otherwise_is_a_fault_of_ours(
    place: Path, invented: dict[str, Originals], write: Write
) -> None:
    wanted = _as_known("trec", invented["trec"])
    originals = write(invented["trec"], place)
    with pytest.raises(AffidavitError, match=r"train\.jsonl does not come out") as fault:
        make(wanted, originals, out=place / "data")
    assert fault.value.exit_code == 70
    assert not (place / "data").exists()
    written = make(replace(wanted, sources=data_set("trec").sources), originals, out=place / "x", any_version=True)
    right = replace(
        wanted, files=tuple(replace(f, sha256=w.sha256) for f, w in zip(wanted.files, written, strict=True))
    )
    assert [w.sha256 for w in make(right, originals, out=place / "data")] == [w.sha256 for w in written]
    assert "another version" not in (place / "data/trec/SOURCE.txt").read_text(encoding="utf-8")


def test_a_folder_is_held_against_the_catalogue(
    place: Path, data: Any, invented: dict[str, Originals], write: Write
) -> None:
    code, _, err = data("check", place)
    assert code == 2
    assert "affidavit data list" in err
    assert data("make", "trec", *write(invented["trec"], place), "--any-version")[0] == 0
    code, out, err = data("check")
    assert code == 1
    assert "3 records, 5,452 expected" in out
    assert "2 differs." in err
    (place / "data/trec/test.jsonl").write_text(json.dumps({"id": CANARY, "text": CANARY}) + "\n")
    (place / "data/trec/train.jsonl").write_text("{}\n" + CANARY)
    code, out, _ = data("check", "--json")
    verdicts = {Path(found["path"]).name: found["detail"] for found in json.loads(out)}
    assert verdicts == {
        "train.jsonl": "line 1: no id, text, label, fine_label",
        "test.jsonl": "line 1: no label, fine_label",
    }
    (place / "data/trec/test.jsonl").unlink()
    assert [found["verdict"] for found in json.loads(data("check", "--json")[1])] == ["differs", "missing"]


def test_the_list_and_each_set_are_shown(place: Path, data: Any) -> None:
    code, out, _ = data("list")
    assert code == 0
    for found in catalogue():
        assert found.name in out
        shown = data("show", found.name)[1]
        assert found.licence in shown
        for source in found.sources:
            assert f"  {found.command(source)}\n" in shown
            assert all(original.sha256 in shown for original in source.originals)
    listed = json.loads(data("list", "--json")[1])
    assert listed[0] == json.loads(data("show", "agnews", "--json")[1])
    code, _, err = data("show", "agnwes")
    assert code == 2
    assert "agnews" in err


ODD: list[Any] = [None, 3, True, [], {}, [[]], "\ud800", f"{CANARY}", 1e400]


@st.composite
def _damaged(draw: st.DrawFn, originals: Originals) -> Originals:
    """One original with bytes cut out or put in, or with a value of its JSON replaced by another."""
    originals = dict(originals)
    path = draw(st.sampled_from(sorted(originals)))
    content = originals[path]
    if path.endswith(("json", "jsonl")) and draw(st.booleans()):
        lines = content.split(b"\n") if path.endswith("jsonl") else [content]
        number = draw(st.integers(0, len(lines) - 1))
        parsed = json.loads(lines[number] or b"{}")
        record = draw(st.sampled_from(parsed)) if isinstance(parsed, list) else parsed
        record[draw(st.sampled_from(sorted(record) or ["a"]))] = draw(st.sampled_from(ODD))
        lines[number] = json.dumps(parsed).encode()
        originals[path] = b"\n".join(lines)
        return originals
    begin, end = sorted(draw(st.lists(st.integers(0, len(content)), min_size=2, max_size=2)))
    middle = draw(st.binary(max_size=6) | st.sampled_from([b"\xff", b"\x00", b'"', b"\r\n", b"\n\n", CANARY.encode()]))
    originals[path] = content[:begin] + middle + content[min(end, begin + 40) :]
    return originals


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(choice=st.data())
def test_a_damaged_original_is_made_or_refused_and_shows_nothing(
    name: str,
    tmp_path_factory: pytest.TempPathFactory,
    capsys: pytest.CaptureFixture[str],
    choice: st.DataObject,
    invented: dict[str, Originals],
    write: Write,
) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    originals = write(choice.draw(_damaged(invented[name])), folder / "down")
    capsys.readouterr()
    code = run(["data", "make", name, *map(str, originals), "-o", str(folder / "data"), "--any-version"])
    printed = capsys.readouterr()
    assert code in {0, 2}, printed.err
    assert CANARY not in printed.out + printed.err
    if code == 2:
        assert not (folder / "data").exists()
        assert "`affidavit data make" in printed.err


@pytest.mark.skipif(os.name == "nt", reason="sha256sum is not there")
def test_the_digest_of_a_folder_is_what_sha256sum_prints(
    place: Path, invented: dict[str, Originals], write: Write
) -> None:
    import subprocess

    from affidavit.datasets.originals import find

    originals = write(invented["enron"], place)
    _, (held,), known = find(data_set("enron"), originals, any_version=True, command="")
    assert not known
    script = "cd AESLC/enron_subject_line && ls */*.subject | LC_ALL=C sort | xargs sha256sum"
    lines = subprocess.run(["bash", "-c", script], capture_output=True, check=True).stdout
    assert hashlib.sha256(lines).hexdigest() == held.sha256
