"""Seeds: small databases of many kinds, in DIRECTORY for page_reader_fuzz, and in DIRECTORY/pages for pages_fuzz."""

import contextlib
import pathlib
import random
import sqlite3
import sys


def value(rng):
    kind = rng.randrange(10)
    if kind < 5:
        return rng.randrange(-(1 << rng.choice([1, 8, 16, 24, 32, 48, 62])), 1 << 40)
    if kind < 6:
        return None
    if kind < 7:
        return rng.choice([0.5, 3.0, -1e300])
    length = rng.choice([0, 3, 20, 60, 600, 1500])
    return "x" * length if kind < 9 else rng.randbytes(length)


def write(path, seed):
    rng = random.Random(seed)
    database = sqlite3.connect(path)
    database.execute(f"PRAGMA page_size = {rng.choice([512, 512, 1024, 4096])}")
    database.execute(f"PRAGMA auto_vacuum = {rng.choice([0, 0, 1])}")
    for table in range(rng.randrange(1, 3)):
        columns = rng.choice([1, 2, 5, 12])
        key = rng.random() < 0.3
        types = ["INTEGER PRIMARY KEY" if key and c == 0 else rng.choice(["INTEGER", "TEXT", "REAL", ""])
                 for c in range(columns)]
        suffix = " WITHOUT ROWID" if key and rng.random() < 0.2 else ""
        names = ", ".join(f"c{c} {t}" for c, t in enumerate(types))
        database.execute(f"CREATE TABLE t{table} ({names}){suffix}")
        for row in range(rng.choice([0, 3, 40])):
            values = [row * 3 if key and c == 0 else value(rng) for c in range(columns)]
            database.execute(f"INSERT INTO t{table} VALUES ({', '.join('?' * columns)})", values)
        if rng.random() < 0.3:
            database.execute(f"DELETE FROM t{table} WHERE rowid % 3 = 0" if not suffix else f"DELETE FROM t{table}")
        if rng.random() < 0.2:
            database.execute(f"ALTER TABLE t{table} ADD COLUMN added INTEGER DEFAULT 5")
    database.commit()
    database.close()


def write_wishes(path, target):
    """The same for pages_fuzz, one for each table: what a scan wants, and the file."""
    with contextlib.closing(sqlite3.connect(path)) as database:
        tables = database.execute("SELECT name, rootpage FROM sqlite_master WHERE type = 'table'").fetchall()
        columns = {name: len(database.execute(f"PRAGMA table_info({name})").fetchall()) for name, _ in tables}
    for name, root in tables:
        for texts in (0, 255):
            wish = bytes([root - 1, columns[name] - 1, 255, 0, texts, 15, 0, 0])
            (target / f"{path.stem}-{name}-{texts}").write_bytes(wish + path.read_bytes())


directory = pathlib.Path(sys.argv[1])
(directory / "pages").mkdir(parents=True, exist_ok=True)
for seed in range(60):
    write(directory / f"seed-{seed}.sqlite", seed)
    if (directory / f"seed-{seed}.sqlite").stat().st_size <= 8192:
        write_wishes(directory / f"seed-{seed}.sqlite", directory / "pages")
