"""Reads Arrow streams that were exported, with every reader that is there.

    arrow.py STREAM...    prints path -> reader -> {columns, rows, digest} or {error}
    arrow.py -            reads one stream from stdin with pyarrow, as a trainer does

The digests are those of check.py.
"""

import io
import json
import os
import sys
import tempfile

import check


def pyarrow(path):
    import pyarrow as pa

    with pa.OSFile(path) as f:
        r = pa.ipc.open_stream(f)
        t = r.read_all()
    t.validate(full=True)
    return check.summary(t.column_names, t.to_pylist())


def polars(path):
    import polars

    t = polars.read_ipc_stream(path)
    return check.summary(t.columns, t.to_dicts())


def duckdb(path):
    import duckdb
    import pyarrow as pa

    with pa.OSFile(path) as f:
        r = pa.ipc.open_stream(f)
        rel = duckdb.connect().from_arrow(r)
        return check.summary(rel.columns, [dict(zip(rel.columns, row)) for row in rel.fetchall()])


def datasets(path):
    import datasets

    datasets.disable_progress_bars()
    with tempfile.TemporaryDirectory() as cache:
        t = datasets.load_dataset("arrow", data_files=path, split="train", cache_dir=cache)
        return check.summary(t.column_names, t)


READERS = {"pyarrow": pyarrow, "polars": polars, "duckdb": duckdb, "datasets": datasets}


def refused(path):
    """Which readers take a stream that was cut off, at any of some places."""
    with open(path, "rb") as f:
        whole = f.read()
    took = []
    for size in range(len(whole) - 1, 0, -max(1, len(whole) // 60)):
        for name, read in {"pyarrow": pyarrow_bytes, "polars": polars_bytes}.items():
            try:
                read(whole[:size])
            except BaseException:  # polars panics in Rust
                continue
            took.append(f"{name} took the first {size} of {len(whole)} bytes")
    return took


def pyarrow_bytes(data):
    import pyarrow as pa

    pa.ipc.open_stream(io.BytesIO(data)).read_all()


def polars_bytes(data):
    import polars

    polars.read_ipc_stream(io.BytesIO(data))


def features(path):
    """What the library makes of the columns that are JSON and images."""
    import datasets

    datasets.disable_progress_bars()
    with tempfile.TemporaryDirectory() as cache:
        rows = list(datasets.load_dataset("arrow", data_files=path, split="train", cache_dir=cache))
    calls = [row["calls"] for row in rows]
    return {
        "tools": [row["tools"] for row in rows],
        "arguments": [c and c[0]["function"]["arguments"] for c in calls],
        "image": [list(row["images"][0].size) if row["images"] else None for row in rows],
    }


def main(paths):
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    if paths == ["-"]:
        import pyarrow as pa

        r = pa.ipc.open_stream(sys.stdin.buffer)
        rows = [row for batch in r for row in batch.to_pylist()]
        json.dump(check.summary(r.schema.names, rows), sys.stdout)
        return
    out = {}
    for path in paths:
        out[path] = {}
        for name, read in READERS.items():
            try:
                out[path][name] = read(path)
            except ImportError:
                continue
            except BaseException as e:  # every fault of a reader is a finding
                out[path][name] = {"error": f"{type(e).__name__}: {e}"[:2000]}
    json.dump(out, sys.stdout)


if __name__ == "__main__":
    if sys.argv[1:2] == ["cut"]:
        json.dump(refused(sys.argv[2]), sys.stdout)
    elif sys.argv[1:2] == ["features"]:
        json.dump(features(sys.argv[2]), sys.stdout)
    else:
        main(sys.argv[1:])
