"""Measures pyarrow on the rows of a Parquet file, one core, in CPU seconds.

    python pyarrow_bench.py FILE OUT ROW_GROUP_ROWS REPEATS [COLUMN …]

Reads FILE (not measured), then measures, REPEATS times each, taking the least:
writing its rows to OUT as pyarrow does by default with zstd at level 3; the
same with what FILE has (page index, checksums, pages of version 2, dictionaries
for enums alone); reading OUT and FILE whole; the columns alone; and the rows as
Python objects, which is what a loop over a dataset gets. Prints one JSON object.
"""

import json
import os
import sys
import time

import pyarrow as pa
import pyarrow.parquet as pq

pa.set_cpu_count(1)
pa.set_io_thread_count(1)

SAME = {
    "data_page_version": "2.0",
    "write_page_index": True,
    "write_page_checksum": True,
}


def least(repeats, work):
    best = None
    for _ in range(repeats):
        began = time.process_time()
        work()
        took = time.process_time() - began
        best = took if best is None else min(best, took)
    return best


def main(file, out, group, repeats, columns):
    read = {"use_threads": False}
    table = pq.read_table(file, **read)
    enums = [f.name for f in table.schema if f.name in ("domain", "effort", "teacher", "teacher_model", "verdict", "licence")]
    enums += ["messages.list.element.role", "messages.list.element.reasoning_kind"]
    how = {"compression": "zstd", "compression_level": 3, "row_group_size": group}

    def write(path, **more):
        pq.write_table(table, path, **how, **more)

    same = {**SAME, "use_dictionary": enums}
    result = {"pyarrow": pa.__version__, "rows": table.num_rows}
    result["write"] = least(repeats, lambda: write(out))
    result["bytes"] = os.path.getsize(out)
    result["read"] = least(repeats, lambda: pq.read_table(out, **read))
    result["write_same"] = least(repeats, lambda: write(out, **same))
    result["bytes_same"] = os.path.getsize(out)
    result["read_same"] = least(repeats, lambda: pq.read_table(out, **read))
    result["read_ours"] = least(repeats, lambda: pq.read_table(file, **read))
    result["read_checked"] = least(repeats, lambda: pq.read_table(out, page_checksum_verification=True, **read))
    result["columns"] = least(repeats, lambda: pq.read_table(out, columns=columns, **read))
    result["columns_ours"] = least(repeats, lambda: pq.read_table(file, columns=columns, **read))
    result["objects"] = least(1, lambda: [b.to_pylist() for b in pq.ParquetFile(out).iter_batches(1024, use_threads=False)])
    rows = table.slice(0, min(table.num_rows, 5000)).to_pylist()
    result["write_objects"] = least(1, lambda: pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), out, **how)) * table.num_rows / len(rows)
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5:])
