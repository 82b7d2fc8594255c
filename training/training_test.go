package training

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
	"github.com/stillhouse-data/stillhouse/internal/testdata"
)

var update = flag.Bool("update", false, "write the golden files anew")

// digest is 64 hex digits of c.
func digest(c string) string { return strings.Repeat(c, 64) }

func testBundle() *Bundle {
	return &Bundle{
		APIVersion: APIVersion, LaunchID: digest("a"), Attempt: 1,
		CreatedAt: time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC),
		Dataset:   Dataset{Name: "maths", Version: 3, BuildID: "20261201T090000Z-00000000", Manifest: "datasets/maths/manifests/m.json", ManifestDigest: digest("b")},
		View: View{
			Name: "messages", Columns: []string{"messages", "tools"},
			Files: []ViewFile{
				{Name: ViewFileName("train", 0, 1, "jsonl"), Split: "train", Bytes: 6, Rows: 3, SHA256: digest("c")},
				{Name: ViewFileName("test", 0, 1, "jsonl"), Split: "test", Bytes: 2, Rows: 1, SHA256: digest("d")},
			},
			Rows: map[string]int64{"train": 3, "test": 1},
		},
		Teachers: []Teacher{{ID: "k3", Model: "kimi-k3", Rows: 4, Training: TrainingAllowed}},
		Student:  Student{Model: "student", MaxLength: 4096},
		Trainer:  Trainer{Name: "trl", Method: "sft", For: "trl 1.16.0", Configs: []string{"configs/trl/sft.yaml"}, Command: []string{"trl", "sft"}},
		Claim:    ClaimFile, Result: ResultFile,
	}
}

func TestLaunchID(t *testing.T) {
	config := func() *Rendered {
		return &Rendered{
			Trainer: Trainer{Command: []string{"trl", "sft"}},
			Files:   []File{{Name: "a", Data: []byte("1")}, {Name: "b", Data: []byte("2")}},
		}
	}
	first, err := LaunchID(digest("b"), config(), 1)
	if err != nil || !ValidLaunchID(first) {
		t.Fatalf("%q, %v", first, err)
	}
	turned := config()
	turned.Files[0], turned.Files[1] = turned.Files[1], turned.Files[0]
	turned.Notes = []string{"for people"}
	if again, _ := LaunchID(digest("b"), turned, 1); again != first {
		t.Error("the order of files or a note made another launch")
	}
	seen := map[string]string{first: "the first"}
	for name, change := range map[string]func() (string, error){
		"data":    func() (string, error) { return LaunchID(digest("c"), config(), 1) },
		"attempt": func() (string, error) { return LaunchID(digest("b"), config(), 2) },
		"config": func() (string, error) {
			r := config()
			r.Files[0].Data = []byte("3")
			return LaunchID(digest("b"), r, 1)
		},
		"a byte moved between files": func() (string, error) {
			r := config()
			r.Files[0].Name, r.Files[0].Data = "a1", nil
			return LaunchID(digest("b"), r, 1)
		},
		"command": func() (string, error) {
			r := config()
			r.Trainer.Command = []string{"trl sft"}
			return LaunchID(digest("b"), r, 1)
		},
	} {
		id, err := change()
		if err != nil {
			t.Fatal(err)
		}
		if other, same := seen[id]; same {
			t.Errorf("%s gives the same launch as %s", name, other)
		}
		seen[id] = name
	}
	for _, bad := range []struct {
		digest  string
		attempt int
	}{{"../../x", 1}, {strings.Repeat("A", 64), 1}, {digest("b"), 0}} {
		if id, err := LaunchID(bad.digest, config(), bad.attempt); err == nil {
			t.Errorf("%+v gave %s", bad, id)
		}
	}
}

func TestValidateNamesTheField(t *testing.T) {
	if err := testBundle().Validate(); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		want   string
		change func(*Bundle)
	}{
		{"apiVersion", func(b *Bundle) { b.APIVersion = "v2" }},
		{"launch_id", func(b *Bundle) { b.LaunchID = "x" }},
		{"attempt", func(b *Bundle) { b.Attempt = 0 }},
		{"dataset", func(b *Bundle) { b.Dataset.Version = 0 }},
		{"dataset.manifest_digest", func(b *Bundle) { b.Dataset.ManifestDigest = "" }},
		{"trainer.command", func(b *Bundle) { b.Trainer.Command = nil }},
		{"view.files: is empty", func(b *Bundle) { b.View.Files = nil }},
		{"view.files[1]: name", func(b *Bundle) { b.View.Files[1].Name = "data/../../etc/passwd" }},
		{"view.files[1]: name", func(b *Bundle) { b.View.Files[1].Name = "data/train-0.jsonl; rm -rf x" }},
		{"view.files[0]: sha256", func(b *Bundle) { b.View.Files[0].SHA256 = "x" }},
		{"view.files[0]: no split", func(b *Bundle) { b.View.Files[0].Split = "" }},
		{"view.files[0]: -1 bytes", func(b *Bundle) { b.View.Files[0].Bytes = -1 }},
		{"view.rows: train is 3, but its files hold 4", func(b *Bundle) { b.View.Files[0].Rows = 4 }},
		{"terms of teacher k3 forbid", func(b *Bundle) { b.Teachers[0].Training = TrainingForbidden }},
		{"terms of k3 are", func(b *Bundle) { b.Teachers[0].Training = "" }},
	} {
		b := testBundle()
		tc.change(b)
		if err := b.Validate(); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("got %v, want an error with %q", err, tc.want)
		}
	}
}

// The schemas are golden files of the contract, and what we write keeps to
// them.
func TestSchemas(t *testing.T) {
	result := &Result{APIVersion: APIVersion, LaunchID: digest("a"), State: ResultSucceeded}
	for _, tc := range []struct {
		file   string
		schema func() ([]byte, error)
		sample any
	}{
		{"handoff.schema.json", Schema, testBundle()},
		{"handoff-result.schema.json", ResultSchema, result},
	} {
		t.Run(tc.file, func(t *testing.T) {
			got, err := tc.schema()
			if err != nil {
				t.Fatal(err)
			}
			golden(t, filepath.Join(testdata.Repository(t), "docs", "contract", tc.file), got)
			text, err := json.Marshal(tc.sample)
			if err != nil {
				t.Fatal(err)
			}
			schema := compile(t, got)
			value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(value); err != nil {
				t.Errorf("what we write breaks our schema: %v", err)
			}
			delete(value.(map[string]any), "launch_id")
			if schema.Validate(value) == nil {
				t.Error("the schema takes an object without launch_id")
			}
		})
	}
}

func compile(t *testing.T, text []byte) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; write it with -update", err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s is not what the code declares; if that is meant, run make contract (-want +got):\n%s", path, diff)
	}
}

func TestClaim(t *testing.T) {
	bucket := mem.New("claims")
	ctx := t.Context()
	if err := Claim(ctx, bucket, digest("a"), "me"); err != nil {
		t.Fatal(err)
	}
	if err := Claim(ctx, bucket, digest("a"), "me"); err != nil {
		t.Errorf("claiming again what is mine: %v", err)
	}
	if err := Claim(ctx, bucket, digest("a"), "you"); !errors.Is(err, ErrClaimed) {
		t.Errorf("claiming what is another's: %v", err)
	}
	if err := Claim(ctx, bucket, digest("b"), "you"); err != nil {
		t.Errorf("claiming another launch: %v", err)
	}
	broken := []byte("{")
	if _, err := bucket.Put(ctx, Key(digest("c"), ClaimFile), bytes.NewReader(broken), int64(len(broken)), objstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := Claim(ctx, bucket, digest("c"), "me"); !errors.Is(err, ErrClaimed) {
		t.Errorf("claiming over a broken claim: %v", err)
	}
	if err := Claim(ctx, bucket, "../x", "me"); err == nil {
		t.Error("claimed what is no launch")
	}
	if err := Claim(ctx, bucket, digest("d"), ""); err == nil {
		t.Error("claimed for nobody")
	}
}
