package training

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
)

func object(t *testing.T, b objstore.Bucket, key string, v any) {
	t.Helper()
	data, ok := v.([]byte)
	if !ok {
		var err error
		if data, err = json.Marshal(v); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := objstore.PutBytes(t.Context(), b, key, data, objstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
}

// bundle puts a hand-off of a version into a store, with more of its objects.
func bundle(t *testing.T, b objstore.Bucket, id string, v catalog.Version, more map[string]any) {
	t.Helper()
	object(t, b, Key(id, HandoffFile), Bundle{
		LaunchID: id, Trainer: Trainer{Name: "trl"}, Student: Student{Model: "qwen"}, View: View{Rows: map[string]int64{"train": 7}},
		Dataset: Dataset{Name: v.Dataset, Version: v.Number, BuildID: v.BuildID, ManifestDigest: v.ManifestSHA256},
	})
	object(t, b, Key(id, "data/train-00000.parquet"), []byte("rows"))
	object(t, b, Key(id, RunFile), []byte("#!"))
	for name, value := range more {
		object(t, b, Key(id, name), value)
	}
}

// twoVersions makes a dataset whose first version is withdrawn.
func twoVersions(t *testing.T, b objstore.Bucket) (first, second catalog.Version) {
	t.Helper()
	c := catalog.Open(b)
	_, err := c.Publish(t.Context(), catalog.Manifest{Dataset: "maths", BuildID: "b1"})
	if err != nil {
		t.Fatal(err)
	}
	if second, err = c.Publish(t.Context(), catalog.Manifest{Dataset: "maths", BuildID: "b2"}); err != nil {
		t.Fatal(err)
	}
	if first, err = c.Withdraw(t.Context(), "maths", 1, "test"); err != nil {
		t.Fatal(err)
	}
	return first, second
}

func TestLaunchesOfAStore(t *testing.T) {
	b := mem.New("b")
	first, _ := twoVersions(t, b)
	bundle(t, b, digest("1"), first, nil)
	bundle(t, b, digest("2"), first, map[string]any{ClaimFile: []byte("{}")})
	bundle(t, b, digest("3"), first, map[string]any{ClaimFile: []byte("{}"), StateFile: map[string]any{"phase": "succeeded"}})
	bundle(t, b, digest("4"), first, map[string]any{ClaimFile: []byte("{}"), StateFile: []byte("[")})
	object(t, b, Key(digest("5"), "data/train-00000.parquet"), []byte("rows"))
	object(t, b, Key(digest("6"), HandoffFile), []byte("what the trainer's machine wrote"))
	object(t, b, "handoff/none/x", []byte("not of a launch"))
	got := map[string]string{}
	for l, err := range Launches(t.Context(), b) {
		if err != nil {
			t.Fatal(err)
		}
		got[l.LaunchID] = l.State
		if l.LaunchID == digest("3") && (l.Trainer != "trl" || l.Student != "qwen" || l.Rows != 7 || l.Dataset.Version != 1 || l.Objects != 5 || l.Bytes == 0) {
			t.Errorf("%+v", l)
		}
	}
	want := map[string]string{
		digest("1"): LaunchPrepared, digest("2"): LaunchStarted, digest("3"): ResultSucceeded, digest("4"): LaunchStarted,
		digest("5"): LaunchIncomplete, digest("6"): LaunchIncomplete,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}

	broken := errors.New("the line is cut")
	b.Fault = func(op, key string) error {
		if op == mem.OpGet && strings.HasSuffix(key, HandoffFile) {
			return broken
		}
		return nil
	}
	for _, err := range Launches(t.Context(), b) {
		if !errors.Is(err, broken) {
			t.Errorf("got %v", err)
		}
	}
}

// Of a withdrawn version's hand-offs the rows go, once they have ended or were
// never begun, and the record of them stays.
func TestSweepLaunches(t *testing.T) {
	b := mem.New("b")
	first, second := twoVersions(t, b)
	ended := map[string]any{ClaimFile: []byte("{}"), StateFile: map[string]any{"phase": "failed"}}
	bundle(t, b, digest("1"), first, ended)
	bundle(t, b, digest("2"), first, map[string]any{ClaimFile: []byte("{}")}) // may run
	bundle(t, b, digest("3"), second, ended)
	bundle(t, b, digest("4"), first, nil)
	other := first
	other.BuildID = "of-another-store"
	bundle(t, b, digest("5"), other, ended)
	other.Dataset = "../nothing"
	bundle(t, b, digest("6"), other, ended)
	object(t, b, Key(digest("7"), "data/train-00000.parquet"), []byte("no handoff.json"))

	c := catalog.Open(b)
	sweep := func(opt SweepOptions) (gone []string) {
		t.Helper()
		opt.Removed = func(key string) { gone = append(gone, key) }
		if _, err := SweepLaunches(t.Context(), c, opt); err != nil {
			t.Fatal(err)
		}
		slices.Sort(gone)
		return gone
	}
	now := time.Now()
	if gone := sweep(SweepOptions{Grace: time.Hour, Now: now, Remove: true}); len(gone) > 0 {
		t.Errorf("within the grace time: %v", gone)
	}
	if gone := sweep(SweepOptions{Datasets: []string{"other"}, Now: now, Remove: true}); len(gone) > 0 {
		t.Errorf("of another dataset: %v", gone)
	}
	want := []string{Key(digest("1"), "data/train-00000.parquet"), Key(digest("4"), "data/train-00000.parquet")}
	slices.Sort(want)
	later := now.Add(2 * time.Hour)
	if d := cmp.Diff(want, sweep(SweepOptions{Grace: time.Hour, Now: later})); d != "" {
		t.Errorf("a dry run: %s", d)
	}
	if d := cmp.Diff(want, sweep(SweepOptions{Grace: time.Hour, Now: later, Remove: true})); d != "" {
		t.Error(d)
	}
	if gone := sweep(SweepOptions{Grace: time.Hour, Now: later, Remove: true}); len(gone) > 0 {
		t.Errorf("twice: %v", gone)
	}
	left := map[string]int{}
	for l, err := range Launches(t.Context(), b) {
		if err != nil {
			t.Fatal(err)
		}
		left[l.LaunchID] = len(l.data)
		if l.LaunchID == digest("1") && l.State != ResultFailed {
			t.Errorf("the record of %+v is gone", l)
		}
	}
	if d := cmp.Diff(map[string]int{digest("1"): 0, digest("2"): 1, digest("3"): 1, digest("4"): 0, digest("5"): 1, digest("6"): 1, digest("7"): 1}, left); d != "" {
		t.Error(d)
	}
}
