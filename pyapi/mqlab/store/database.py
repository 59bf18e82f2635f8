"""Opening the store: the URL, SQLite's settings, migrations, and one clear message for what can go wrong."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import exc

from mqlab.errors import UsageError
from mqlab.store.schema import KNOWN_SCHEMAS, SCHEMA

__all__ = ["StoreError", "default_location", "open_engine", "schema_of", "store_errors"]

_HEADER: Final = b"SQLite format 3\x00"
_BUSY_SECONDS: Final = 30


class StoreError(UsageError):
    """The store cannot be opened, read or written."""

    kind = "store"


def default_location() -> str:
    """$MQLAB_STORE, else a file in the user's data directory."""
    given = os.environ.get("MQLAB_STORE")
    if given:
        return given
    base = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return str(Path(base) / "mqlab" / "store.sqlite")


def open_engine(location: str) -> sa.Engine:
    """An engine on the store at `location` (a path or an SQLAlchemy URL), migrated to SCHEMA."""
    url = _url(location)
    with store_errors(url, "open"):
        if url.get_backend_name() == "sqlite" and url.database not in (None, "", ":memory:"):
            _prepare_file(Path(str(url.database)))
        engine = _create(url)
        try:
            if _schema_or_none(engine) != SCHEMA:
                _migrate(engine, url)
        except BaseException:
            engine.dispose()
            raise
    return engine


def schema_of(engine: sa.Engine) -> str:
    """The store's schema version."""
    return _schema_or_none(engine) or ""


@contextmanager
def store_errors(url: sa.URL, doing: str) -> Iterator[None]:
    """Turns what a database or the file system answers into a StoreError that names the store."""
    try:
        yield
    except exc.SQLAlchemyError as error:
        raise _explain(url, doing, str(getattr(error, "orig", None) or error)) from None
    except OSError as error:
        raise _explain(url, doing, f"{error.filename}: {error.strerror}") from None


def _url(location: str) -> sa.URL:
    if "://" not in location:
        return sa.URL.create("sqlite", database=str(Path(location).expanduser().absolute()))
    try:
        return sa.make_url(location)
    except exc.ArgumentError:
        raise StoreError(f"{location!r} is no store", "give a path or an SQLAlchemy URL") from None


def _prepare_file(path: Path) -> None:
    """Makes the folder, and refuses a file that is no SQLite database before anything is written into it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and path.stat().st_size:
        with path.open("rb") as file:
            if file.read(len(_HEADER)) != _HEADER:
                raise StoreError(
                    f"the store {path} is damaged or no store at all: it is no SQLite file",
                    "move it away or name another with --store",
                )


def _create(url: sa.URL) -> sa.Engine:
    try:
        engine = sa.create_engine(url)
    except (exc.NoSuchModuleError, ImportError) as error:
        raise StoreError(
            f"cannot use the store {_shown(url)}: {error}", "install the database's driver"
        ) from None
    if url.get_backend_name() == "sqlite":
        sa.event.listen(engine, "connect", _on_connect)
        sa.event.listen(engine, "begin", _on_begin)
    return engine


def _on_connect(connection: Any, _record: Any) -> None:
    # Python's sqlite3 would begin transactions by itself, but not before DDL: _on_begin does it for all.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {_BUSY_SECONDS * 1000}")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA synchronous = NORMAL")
    cursor.close()


def _on_begin(connection: sa.Connection) -> None:
    writing = connection.get_execution_options().get("mqlab_write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")


def _schema_or_none(engine: sa.Engine) -> str | None:
    with engine.connect() as connection:
        return _read_schema(connection)


def _read_schema(connection: sa.Connection) -> str | None:
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()


def _migrate(engine: sa.Engine, url: sa.URL) -> None:
    """Brings the store to SCHEMA in one transaction: two processes may open a new store at once."""
    with engine.connect().execution_options(mqlab_write=True) as connection, connection.begin():
        found = _read_schema(connection)
        if found == SCHEMA:
            return
        if found is not None and found not in KNOWN_SCHEMAS:
            raise StoreError(
                f"the store {_shown(url)} has schema {found}, this mqlab knows up to {SCHEMA}",
                "it was written by a newer mqlab: update, or name another with --store",
            )
        if found is None and url.get_backend_name() == "sqlite" and sa.inspect(connection).get_table_names():
            raise StoreError(f"{_shown(url)} is the database of something else", "name another with --store")
        _upgrade(connection)


def _upgrade(connection: sa.Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _explain(url: sa.URL, doing: str, answer: str) -> StoreError:
    answer = " ".join(answer.split())
    lower = answer.lower()
    if "malformed" in lower or "not a database" in lower or "disk image" in lower:
        remedy = "move it away or name another with --store; `sqlite3 FILE .recover` may save what is left"
        return StoreError(f"the store {_shown(url)} is damaged: {answer}", remedy)
    if "locked" in lower:
        return StoreError(f"the store {_shown(url)} is in use: {answer}", "wait for the other process")
    if url.get_backend_name() != "sqlite":
        return StoreError(
            f"cannot {doing} the store {_shown(url)}: {answer}", "see that its server runs and lets you in"
        )
    remedy = "see that its folder exists and can be written, or name another with --store"
    return StoreError(f"cannot {doing} the store {_shown(url)}: {answer}", remedy)


def _shown(url: sa.URL) -> str:
    return (
        str(url.database) if url.get_backend_name() == "sqlite" else url.render_as_string(hide_password=True)
    )
