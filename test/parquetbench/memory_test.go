//go:build parquetbench

package parquetbench

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/datasets/parquetio"
	"github.com/stillhouse-data/stillhouse/datasets/views"
	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/objstore/dir"
)

// mostMiB is what a process may hold at its highest.
const mostMiB = 500

// phaseEnv makes the test binary do one phase and end, so that its memory is
// that of the phase.
const phaseEnv = "STILLHOUSE_PARQUETBENCH_PHASE"

func TestMain(m *testing.M) {
	if phase := os.Getenv(phaseEnv); phase != "" {
		if err := phases[phase](os.Args[1], os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

var phases = map[string]func(root, rows string) error{
	"write": writeVersion, "verify": verifyVersion, "export": exportParquet, "export as JSONL": exportJSONL,
}

// TestTenMillionRows writes a version of ten million rows, verifies it and
// exports it, each in a process of its own, and holds the highest memory of
// each to 500 MiB. STILLHOUSE_BENCH_ROWS is another number of rows.
func TestTenMillionRows(t *testing.T) {
	rows := "10000000"
	if s := os.Getenv("STILLHOUSE_BENCH_ROWS"); s != "" {
		rows = s
	}
	root := t.TempDir()
	for _, phase := range []string{"write", "verify", "export", "export as JSONL"} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], root, rows)
		cmd.Env = append(os.Environ(), phaseEnv+"="+phase)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		began := time.Now()
		if err := cmd.Run(); err != nil {
			t.Fatalf("%s: %v\n%s", phase, err, out.String())
		}
		usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
		mib := usage.Maxrss / 1024
		cpu := time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
		t.Logf("%-16s %5d MiB at the highest, %6.0f s of CPU, %6.0f s; %s", phase, mib, cpu.Seconds(), time.Since(began).Seconds(), strings.TrimSpace(out.String()))
		if mib > mostMiB {
			t.Errorf("%s took %d MiB, at most %d", phase, mib, mostMiB)
		}
		if strings.HasPrefix(phase, "export") {
			if err := os.RemoveAll(filepath.Join(root, "out")); err != nil {
				t.Fatal(err)
			}
		}
	}
}

const (
	dataset = "ten-million"
	buildID = "20260101T000000Z-00000000"
	// fileBytes is as a build cuts its files.
	fileBytes = 256 << 20
)

func store(root string) (*catalog.Catalog, error) {
	b, err := dir.Open(filepath.Join(root, "store"), "s3://bench")
	if err != nil {
		return nil, err
	}
	return catalog.Open(&writable{b, filepath.Join(root, "store")}), nil
}

func writeVersion(root, rows string) error {
	n, err := strconv.Atoi(rows)
	if err != nil {
		return err
	}
	cat, err := store(root)
	if err != nil {
		return err
	}
	w := &version{cat: cat, root: root}
	random := rand.New(rand.NewPCG(1, 2))
	var row [1]datasets.Row
	for i := range n {
		fill(&row[0], random, i, n)
		if err := w.add(row[:]); err != nil {
			return err
		}
	}
	if err := w.endFile(); err != nil {
		return err
	}
	v, err := cat.Publish(context.Background(), catalog.Manifest{
		Dataset: dataset, BuildID: buildID, Files: w.refs, RecipeDigest: strings.Repeat("0", 64),
		Teachers: []catalog.ManifestTeacher{{ID: "a", Terms: catalog.Terms{Training: catalog.TrainingAllowed}}, {ID: "b", Terms: catalog.Terms{Training: catalog.TrainingAllowed}}},
	})
	if err != nil {
		return err
	}
	var size int64
	for _, f := range w.refs {
		size += f.Bytes
	}
	fmt.Printf("version %d: %d rows in %d files, %d MiB", v.Number, n, len(w.refs), size>>20)
	return nil
}

// A version is one being written, a file at a time.
type version struct {
	cat  *catalog.Catalog
	root string
	file *os.File
	w    *parquetio.Writer[datasets.Row]
	refs []catalog.FileRef
}

func (v *version) add(row []datasets.Row) error {
	if v.w != nil && v.w.Bytes() > fileBytes {
		if err := v.endFile(); err != nil {
			return err
		}
	}
	if v.w == nil {
		var err error
		if v.file, err = os.CreateTemp(v.root, "table-*.parquet"); err != nil {
			return err
		}
		if v.w, err = parquetio.NewWriter[datasets.Row](v.file, parquetio.Options{SortedBy: "prompt_id"}); err != nil {
			return err
		}
	}
	return v.w.Write(row)
}

func (v *version) endFile() error {
	if err := errors.Join(v.w.Close(), v.file.Close()); err != nil {
		return err
	}
	ref, err := v.cat.Stage(context.Background(), dataset, buildID, datasets.TableTrain, datasets.TableTrain, len(v.refs), v.file.Name())
	if err != nil {
		return err
	}
	v.refs, v.w = append(v.refs, ref), nil
	return os.Remove(v.file.Name())
}

// fill makes row i of n: half a kilobyte of text of a sort that compresses to a
// third, as answers do.
func fill(r *datasets.Row, random *rand.Rand, i, n int) {
	var raw [16]byte
	id := fmt.Sprintf("%032x", i)
	for j := range raw {
		raw[j] = byte(random.Uint32())
	}
	question, answer := sentence(random, 12), sentence(random, 30)
	reasoning := sentence(random, 40)
	*r = datasets.Row{
		TaskID: id + "/math/high", PromptID: id, SampleID: hex.EncodeToString(raw[:]), Domain: "math", Effort: "high",
		Teacher: []string{"a", "b"}[i%2], TeacherModel: "m", Verdict: ptr(datasets.Pass), Score: ptr(float64(i) / float64(n)), CompletionTokens: ptr(int64(len(answer) / 4)),
		Messages: []chat.Message{
			{Role: chat.RoleUser, Content: &question},
			{Role: chat.RoleAssistant, Content: &answer, ReasoningContent: &reasoning, ReasoningKind: ptr("raw"), Train: true},
		},
	}
}

var vocabulary = strings.Fields(`the a sum of two numbers is then we take what remains and divide it by
	seven so that each friend gets half an apple while Janet sells every egg at market for dollars a day how
	much does she make first note second therefore answer times plus minus equals total price weight minutes`)

func sentence(random *rand.Rand, words int) string {
	var b strings.Builder
	for range words {
		b.WriteString(vocabulary[random.IntN(len(vocabulary))])
		b.WriteByte(' ')
		if random.IntN(6) == 0 {
			b.WriteString(strconv.Itoa(random.IntN(10_000)))
			b.WriteByte(' ')
		}
	}
	return b.String()
}

func verifyVersion(root, rows string) error {
	cat, err := store(root)
	if err != nil {
		return err
	}
	report, err := cat.Verify(context.Background(), dataset, nil)
	if err != nil {
		return err
	}
	if !report.OK() || strconv.FormatInt(report.Rows, 10) != rows {
		return fmt.Errorf("%d rows of %s, problems %v", report.Rows, rows, report.Problems)
	}
	fmt.Printf("%d rows, %d MiB", report.Rows, report.Bytes>>20)
	return nil
}

func exportParquet(root, rows string) error { return export(root, rows, views.Parquet) }
func exportJSONL(root, rows string) error   { return export(root, rows, views.JSONL) }

func export(root, rows, form string) error {
	cat, err := store(root)
	if err != nil {
		return err
	}
	v, m, err := cat.Latest(context.Background(), dataset)
	if err != nil {
		return err
	}
	s, err := views.Export(context.Background(), cat, m, views.ViewMessages, views.Folder(filepath.Join(root, "out")), views.Options{Version: v, Form: form})
	if err != nil {
		return err
	}
	if strconv.FormatInt(s.Rows[datasets.TableTrain], 10) != rows {
		return fmt.Errorf("%d rows of %s", s.Rows[datasets.TableTrain], rows)
	}
	fmt.Printf("%d rows, %d MiB", s.Rows[datasets.TableTrain], s.Bytes>>20)
	return nil
}

// writable is a folder that is written as the embedded store writes its own.
type writable struct {
	*dir.Bucket
	root string
}

func (b *writable) Put(ctx context.Context, key string, body io.ReadSeeker, size int64, opt objstore.PutOptions) (objstore.Attr, error) {
	path := filepath.Join(b.root, filepath.FromSlash(key))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return objstore.Attr{}, err
	}
	if _, err := os.Stat(path); opt.IfNoneMatch && err == nil {
		return objstore.Attr{}, objstore.ErrPrecondition
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return objstore.Attr{}, err
	}
	f, err := os.Create(path)
	if err != nil {
		return objstore.Attr{}, err
	}
	n, err := io.Copy(f, body)
	if err := errors.Join(err, f.Close()); err != nil {
		return objstore.Attr{}, err
	}
	if n != size {
		return objstore.Attr{}, io.ErrShortWrite
	}
	return b.Head(ctx, key)
}
