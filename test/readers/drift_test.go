//go:build readers

package readers

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/datasets/views"
	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
)

// drift is what one value is in the shards of two builds, one after the other.
// Whoever infers a schema from it has four.
var drift = []string{"null", "[]", "9", "9.5"}

// of is nothing in the first shard, an empty list in the second and a value
// from the third on.
func listOf[T any](shard int, v T) []T {
	switch shard {
	case 0:
		return nil
	case 1:
		return []T{}
	default:
		return []T{v}
	}
}

func valueOf[T any](shard int, v T) *T {
	if shard < 2 {
		return nil
	}
	return &v
}

func drifting(shard int) []chat.Message {
	call := chat.ToolCall{ID: "c", Type: "function", Name: "f", Arguments: `{"x":` + drift[shard] + `}`}
	return []chat.Message{
		{Role: "user", Content: valueOf(shard, "question")},
		{Role: "assistant", Content: valueOf(shard, "answer"), ReasoningContent: valueOf(shard, drift[shard]), Train: true, ToolCalls: listOf(shard, call)},
	}
}

func driftingMeta(shard int) *string {
	if shard == 0 {
		return nil
	}
	return ptr(`{"x":` + drift[shard] + `,"deep":{"y":` + drift[shard] + `}}`)
}

// A shard of each table: two rows, so that the same file holds more than one.
func driftingRow(shard, i int) datasets.Row {
	id := fmt.Sprintf("%d%d", shard, i)
	return datasets.Row{
		TaskID: id + "/d/e", PromptID: id, SampleID: "s" + id, Domain: "d", Effort: "e", Teacher: "t", TeacherModel: "m",
		Messages: drifting(shard), Tools: valueOf(shard, `[{"default":`+drift[shard]+`}]`),
		Verdict: valueOf(shard, "pass"), Score: valueOf(shard, float64(9*shard)/2), CompletionTokens: valueOf(shard, int64(9)),
		Licence: valueOf(shard, "mit"), Meta: driftingMeta(shard),
	}
}

func driftingCandidate(shard, i int) datasets.Candidate {
	r := driftingRow(shard, i)
	return datasets.Candidate{
		SampleID: r.SampleID, TaskID: r.TaskID, PromptID: r.PromptID, Messages: r.Messages, Tools: r.Tools, Score: r.Score, Meta: r.Meta,
		ParamsAsked: `{"temperature":` + drift[shard] + `}`, ParamsEffective: valueOf(shard, `{"temperature":`+drift[shard]+`}`),
		Images: listOf(shard, datasets.Image{Digest: "d"}), Flags: listOf(shard, "flag"), RejectReasons: listOf(shard, "length"),
		Verdicts:   listOf(shard, datasets.Verdict{Verifier: "math", Score: valueOf(shard, 9.5)}),
		CostMicros: valueOf(shard, int64(9)), ArgsValid: valueOf(shard, true), Rank: valueOf(shard, int32(9)),
	}
}

func driftingPrompt(shard, i int) datasets.PromptRow {
	r := driftingRow(shard, i)
	return datasets.PromptRow{
		TaskID: r.TaskID, PromptID: r.PromptID, Messages: r.Messages, Tools: r.Tools, Meta: r.Meta, Route: listOf(shard, "t"),
		Images: listOf(shard, datasets.Image{Digest: "d"}), Gold: valueOf(shard, drift[shard]), Tests: valueOf(shard, drift[shard]),
		Group: valueOf(shard, "g"), Jaccard: valueOf(shard, 9.5), Judged: valueOf(shard, int64(9)),
		ContaminatedBy: listOf(shard, datasets.Contaminant{}),
	}
}

func driftingPair(shard, i int) datasets.Pair {
	r := driftingRow(shard, i)
	return datasets.Pair{
		TaskID: r.TaskID, PromptID: r.PromptID, Prompt: r.Messages[:1], Chosen: r.Messages[1:], Rejected: r.Messages[1:],
		ChosenScore: r.Score, RejectedScore: valueOf(shard, 9.0), Margin: valueOf(shard, 9.5),
	}
}

func driftingLogprobs(shard, i int) datasets.LogprobRow {
	r := driftingRow(shard, i)
	return datasets.LogprobRow{
		SampleID: r.SampleID, PromptID: r.PromptID,
		TokenIDs: listOf(shard, valueOf(shard, int32(9))), Logprobs: listOf(shard, ptr(float32(-9.5))), TokenBytes: listOf(shard, ptr([]byte("x"))),
		TopTokenIDs: listOf(shard, ptr(int32(9))), TopLogprobs: listOf(shard, ptr(float32(-9))), TailLogmass: listOf(shard, ptr(float32(-9))),
		Tokenizer: valueOf(shard, "tokenizer"),
	}
}

// shards writes the table's four files and gives the pattern of all.
func shards[T any](t *testing.T, dir, table string, row func(shard, i int) T) string {
	t.Helper()
	for shard := range drift {
		write(t, filepath.Join(dir, table), fmt.Sprintf("shard-%d", shard), []T{row(shard, 0), row(shard, 1)})
	}
	return filepath.Join(dir, table, "shard-*.parquet")
}

// What a column holds in one shard or build never shows in its type: all files
// open together, with one schema, in every reader.
func TestOneSchemaWhateverTheRowsHold(t *testing.T) {
	dir := t.TempDir()
	patterns := []string{
		shards(t, dir, "train", driftingRow),
		shards(t, dir, "candidates", driftingCandidate),
		shards(t, dir, "prompts", driftingPrompt),
		shards(t, dir, "pairs", driftingPair),
		shards(t, dir, "logprobs", driftingLogprobs),
	}
	folders := map[string]string{} // of two builds, and the pattern of their Parquet
	for _, view := range []string{views.ViewMessages, views.ViewPreference} {
		pattern := filepath.Join(dir, view+"-*", "data", "*.parquet")
		patterns = append(patterns, pattern)
		for build := range 2 {
			exportDrift(t, dir, view, views.Parquet, build)
			folders[exportDrift(t, dir, view, views.JSONL, build)] = filepath.Join(dir, fmt.Sprintf("%s-%d", view, build), "data", "*.parquet")
		}
	}
	paths := slices.Clone(patterns)
	for folder := range folders {
		paths = append(paths, folder)
	}
	got := run(t, paths)
	for _, pattern := range patterns {
		compare(t, pattern, got[pattern], oursTogether(t, pattern), "pyarrow", "duckdb", "polars", "datasets")
	}
	for folder, pattern := range folders {
		compare(t, folder, got[folder], oursTogether(t, pattern), "datasets")
	}
}

// exportDrift publishes two shards as the version of a build and exports a view.
func exportDrift(t *testing.T, dir, view, form string, build int) string {
	t.Helper()
	c := catalog.Open(mem.New("b"))
	m := catalog.Manifest{Dataset: "drift", BuildID: fmt.Sprint("b", build)}
	table := map[string]string{views.ViewMessages: datasets.TableTrain, views.ViewPreference: datasets.TablePairs}[view]
	for i, shard := range []int{2 * build, 2*build + 1} {
		ref, err := c.Stage(t.Context(), "drift", m.BuildID, table, datasets.TableTrain, i, filepath.Join(dir, table, fmt.Sprintf("shard-%d.parquet", shard)))
		if err != nil {
			t.Fatal(err)
		}
		m.Files = append(m.Files, ref)
	}
	folder := filepath.Join(dir, fmt.Sprintf("%s-%d", view, build))
	if form == views.JSONL {
		folder = filepath.Join(dir, fmt.Sprintf("jsonl-%s-%d", view, build))
	}
	if _, err := views.Export(t.Context(), c, &m, view, views.Folder(folder), views.Options{Form: form}); err != nil {
		t.Fatal(err)
	}
	return folder
}

// oursTogether is our own reading of the files of a pattern, in their order.
func oursTogether(t *testing.T, pattern string) reading {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) < 2 {
		t.Fatalf("%s: %d files, %v", pattern, len(files), err)
	}
	slices.Sort(files)
	var all reading
	h := sha256.New()
	for _, file := range files {
		r := ours(t, file)
		if all.Columns == nil {
			all.Columns = r.Columns
		}
		if !slices.Equal(all.Columns, r.Columns) {
			t.Errorf("%s has the columns %v, not %v", file, r.Columns, all.Columns)
		}
		all.Rows += r.Rows
		feedFile(t, h, file)
	}
	all.Digest = hex.EncodeToString(h.Sum(nil))
	return all
}
