"""Reads Parquet files, patterns of them and exported folders with every reader that is there.

Prints one JSON object: path -> reader -> {columns, rows, digest} or {error},
and under "missing" the readers that can't be imported. The digest is SHA-256
over a canonical form of all rows, which readers_test.go makes too: type, size
and bytes of each value, so that null, "", 0 and 0.0 never look alike.
"""

import glob
import hashlib
import importlib
import json
import os
import struct
import sys
import tempfile


def feed(out, v):
    if v is None:
        out(b"n")
    elif isinstance(v, bool):
        out(b"t" if v else b"f")
    elif isinstance(v, int):
        out(b"i%d;" % v)
    elif isinstance(v, float):
        out(b"d" + struct.pack(">d", v).hex().encode() + b";")
    elif isinstance(v, str):
        b = v.encode()
        out(b"s%d:" % len(b) + b)
    elif isinstance(v, bytes):
        # A part of a character is a token too; whole ones read as text.
        try:
            feed(out, v.decode())
        except UnicodeDecodeError:
            out(b"b%d:" % len(v) + v)
    elif isinstance(v, dict):
        out(b"o%d;" % len(v))
        for k in sorted(v, key=str.encode):
            feed(out, k)
            feed(out, v[k])
    elif isinstance(v, (list, tuple)):
        out(b"l%d;" % len(v))
        for e in v:
            feed(out, e)
    else:
        raise TypeError(f"a value of {type(v)}")


def summary(columns, rows):
    h, n = hashlib.sha256(), 0
    for row in rows:
        feed(h.update, row)
        n += 1
    return {"columns": list(columns), "rows": n, "digest": h.hexdigest()}


def together(path):
    """Opens the files of a pattern as one table; their schemas must be one."""
    import pyarrow
    import pyarrow.dataset
    import pyarrow.parquet as pq

    files = sorted(glob.glob(path))
    first = pq.read_schema(files[0])
    for file in files:
        schema = pq.read_schema(file)
        if not schema.equals(first):
            raise ValueError(f"{file} has another schema than {files[0]}: {schema}")
        if schema.metadata != first.metadata:
            raise ValueError(f"{file} has other metadata than {files[0]}")
    if "null" in str(first.remove_metadata()).replace("not null", ""):
        raise ValueError(f"a column without a type: {first}")
    t = pyarrow.dataset.dataset(files).to_table()
    return summary(t.column_names, t.to_pylist())


def pyarrow(path):
    import pyarrow.parquet as pq

    if "*" in path:
        return together(path)
    f = pq.ParquetFile(path)
    t = f.read()
    if t.num_rows and "prompt_id" in t.column_names:
        # Statistics and sorting columns decide what a filter skips.
        for prompt_id in t.column("prompt_id").to_pylist()[:: max(1, t.num_rows // 5)]:
            want = t.column("prompt_id").to_pylist().count(prompt_id)
            got = pq.read_table(path, filters=[("prompt_id", "=", prompt_id)]).num_rows
            if got != want:
                raise ValueError(f"a filter on {prompt_id} finds {got} rows of {want}")
    return summary(t.column_names, t.to_pylist())


def duckdb(path):
    import duckdb

    con = duckdb.connect()
    r = con.execute("select * from read_parquet(?, file_row_number = false)", [path])
    columns = [d[0] for d in r.description]
    rows = [dict(zip(columns, row)) for row in r.fetchall()]
    if rows and "prompt_id" in columns:
        # Bloom filters and statistics decide what a filter skips.
        for prompt_id in [row["prompt_id"] for row in rows][:: max(1, len(rows) // 5)] + ["no such id"]:
            want = sum(row["prompt_id"] == prompt_id for row in rows)
            got = con.execute("select count(*) from read_parquet(?) where prompt_id = ?", [path, prompt_id]).fetchone()[0]
            if got != want:
                raise ValueError(f"a filter on {prompt_id} finds {got} rows of {want}")
    return summary(columns, rows)


def polars(path):
    import polars

    t = polars.scan_parquet(path).collect() if "*" in path else polars.read_parquet(path)
    return summary(t.columns, t.to_dicts())


def datasets(path):
    import datasets

    datasets.disable_progress_bars()
    with tempfile.TemporaryDirectory() as cache:
        if os.path.isdir(path):  # a folder as on the hub, by its card
            t = datasets.load_dataset(path, split="train", cache_dir=cache)
        else:
            t = datasets.load_dataset("parquet", data_files=path, split="train", cache_dir=cache)
        return summary(t.column_names, t)


READERS = {"pyarrow": pyarrow, "duckdb": duckdb, "polars": polars, "datasets": datasets}


def main(paths):
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    out = {"missing": []}
    readers = {}
    for name, read in READERS.items():
        try:
            importlib.import_module(name)
            readers[name] = read
        except ImportError:
            out["missing"].append(name)
    for path in paths:
        out[path] = {}
        for name, read in readers.items():
            if os.path.isdir(path) and name != "datasets":
                continue
            try:
                out[path][name] = read(path)
            except Exception as e:  # every fault of a reader is a finding
                out[path][name] = {"error": f"{type(e).__name__}: {e}"[:2000]}
    json.dump(out, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
