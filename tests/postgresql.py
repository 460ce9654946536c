"""A PostgreSQL server of one's own, for as long as tests need it."""

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest

PASSWORD = "p@ss/word"


def _programs():
    """The folder with initdb and postgres, or None."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    found = shutil.which("initdb")
    folders += [Path(found).parent] if found else []
    return next((folder for folder in folders if (folder / "initdb").exists()), None)


@contextlib.contextmanager
def running_server():
    """A server on a port of its own; yields the connection string with a password in it."""
    programs = _programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed (Debian's package postgresql)")
    # The server refuses to run as root.
    user = None
    if os.geteuid() == 0:
        try:
            user = pwd.getpwnam("postgres").pw_name
        except KeyError:
            pytest.skip("there is no user 'postgres' to run a server as, and root must not")
    folder = Path(tempfile.mkdtemp(prefix="postgresql-"))
    try:
        (folder / "password").write_text(PASSWORD)
        if user is not None:
            shutil.chown(folder, user)
            shutil.chown(folder / "password", user)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        own = {"user": user, "cwd": folder, "stdout": subprocess.DEVNULL}
        data = folder / "data"
        made = [programs / "initdb", "-D", data, "-U", "ann", "-A", "scram-sha-256"]
        made += ["--pwfile", folder / "password", "--encoding", "UTF8", "--no-sync"]
        subprocess.run(made, check=True, stderr=subprocess.DEVNULL, **own)
        started = [programs / "pg_ctl", "-D", data, "-w", "-l", folder / "log", "-o"]
        options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off"
        subprocess.run([*started, options, "start"], check=True, **own)
        try:
            yield f"postgresql://ann:p%40ss%2Fword@127.0.0.1:{port}/postgres"
        finally:
            stopped = [programs / "pg_ctl", "-D", data, "-m", "immediate", "stop"]
            subprocess.run(stopped, check=True, **own)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
