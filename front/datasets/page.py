"""The catalogue as tables, for a terminal and for the guide."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from affidavit.datasets.catalogue import DataSet, Source, catalogue

__all__ = ["bytes_in_words", "to_json", "to_markdown"]


def to_json(wanted: DataSet) -> Mapping[str, Any]:
    """Everything that is known of a set."""
    return {
        "name": wanted.name,
        "folder": wanted.folder,
        "title": wanted.title,
        "licence": wanted.licence,
        "processing": wanted.processing,
        "personal": wanted.personal,
        "warning": wanted.warning,
        "sources": [
            {
                "repository": source.repository,
                "commit": source.commit,
                "downloads": list(dict.fromkeys(source.downloads())),
                "originals": [
                    {"path": original.path, "size": original.size, "sha256": original.sha256}
                    for original in source.originals
                ],
                "command": wanted.command(source),
                "makes": wanted.expected(source),
            }
            for source in wanted.sources
        ],
        "files": [
            {
                "name": f"{wanted.folder}/{file.name}",
                "records": file.records,
                "fields": list(file.fields),
                "size": file.size,
                "sha256": file.sha256,
            }
            for file in wanted.files
        ],
    }


def to_markdown() -> str:
    """The tables of the guide's page: what the sets are, and what makes their files."""
    sets = [
        "| name | what it is | licence | original |",
        "|---|---|---|---|",
        *(
            f"| `{found.name}` | {found.title} | {found.licence} | {'; '.join(map(_link, found.sources))} |"
            for found in catalogue()
        ),
    ]
    made = [
        "| file | records | size | SHA-256 | made by |",
        "|---|---|---|---|---|",
        *(
            f"| `{found.folder}/{file.name}` | {file.records:,} | {bytes_in_words(file.size)} | `{file.sha256[:16]}` "
            f"| `{found.command()}` |"
            for found in catalogue()
            for file in found.files
        ),
    ]
    return "\n".join([*sets, "", *made, ""])


def bytes_in_words(size: int) -> str:
    """A size in kB or MB, of a thousand and a million bytes."""
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.0f} kB"


def _link(source: Source) -> str:
    names = ", ".join(original.path for original in source.originals)
    at = f"{source.repository}/tree/{source.commit}" if source.commit else source.repository
    return f"[{source.place}]({at}): {names}"
