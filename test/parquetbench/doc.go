// Package parquetbench measures our Parquet beside pyarrow's: the same records,
// in the same run, a single core each. It writes, reads whole, reads a few
// columns and compares sizes, and prints a table; ratios are what it is for, since
// both sides had the same machine at the same minute. CPU seconds are counted,
// not time, so that a busy machine does not decide.
//
//	python3 -m venv .venv && .venv/bin/pip install -r test/readers/requirements.txt
//	STILLHOUSE_PYTHON=$PWD/.venv/bin/python go test -tags parquetbench -run BesidePyarrow -v ./test/parquetbench
//
// make bench-parquet does both. TestTenMillionRows writes ten million rows as a
// version and exports them, and holds either process to a memory of 500 MiB:
// make bench-parquet-memory, which needs minutes and some gigabytes of disk.
package parquetbench
