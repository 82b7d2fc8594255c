package parquetio_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/parquetio"
)

// childEnv makes the test binary print the digest of the same rows.
const childEnv = "STILLHOUSE_PARQUETIO_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		var t testing.T
		os.Stdout.WriteString(digest(&t))
		return
	}
	os.Exit(m.Run())
}

func digest(t testing.TB) string {
	h := sha256.New()
	h.Write(write(t, many(3000), parquetio.Options{SortedBy: "prompt_id", RowGroupRows: 1000, Metadata: map[string]string{"b": "1", "a": "2", "c": "3"}}))
	h.Write(write(t, awkward(), parquetio.Options{}))
	return hex.EncodeToString(h.Sum(nil))
}

func TestEqualRowsGiveEqualBytesInEveryProcess(t *testing.T) {
	want := digest(t)
	if got := digest(t); got != want {
		t.Fatalf("the second time the digest is %s, was %s", got, want)
	}
	for range 2 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"=1", "GODEBUG=randautoseed=1")
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		if string(out) != want {
			t.Errorf("another process has the digest %s, this one %s", out, want)
		}
	}
}

// How the caller cuts the rows must not show in the file.
func TestPiecesDoNotShow(t *testing.T) {
	rows := many(3000)
	want := write(t, rows, parquetio.Options{RowGroupRows: 700})
	for _, size := range []int{1, 7, 64, 1000} {
		var buf bytes.Buffer
		w, err := parquetio.NewWriter[datasets.Row](&buf, parquetio.Options{RowGroupRows: 700})
		if err != nil {
			t.Fatal(err)
		}
		for rest := rows; len(rest) > 0; {
			n := min(size, len(rest))
			if err := w.Write(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(buf.Bytes(), want) {
			t.Errorf("in pieces of %d the file differs", size)
		}
	}
}
