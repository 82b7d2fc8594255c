// Package readers opens what the program writes with the readers that people
// use: pyarrow, DuckDB, polars and Hugging Face datasets, from their own
// packages. It compares names of columns, numbers of rows and every value.
//
//	python3 -m venv .venv && .venv/bin/pip install -r test/readers/requirements.txt
//	STILLHOUSE_PYTHON=$PWD/.venv/bin/python go test -tags readers ./test/readers
//
// A reader that is not installed is skipped with a message, and fails the test
// where STILLHOUSE_REQUIRE_READERS=1. The test installs nothing.
package readers
