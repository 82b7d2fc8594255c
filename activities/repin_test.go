package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
	"github.com/stillhouse-data/stillhouse/internal/sources"
	"github.com/stillhouse-data/stillhouse/internal/wire"
	"github.com/stillhouse-data/stillhouse/teachers/teacherstest"
)

// What lies in another store is listed anew before a scheduled run: only new
// prompts are asked, and where nothing is new the run is the one before.
func TestSourcesThatGrow(t *testing.T) {
	w, other := newWorld(t), mem.New("other")
	put := func(key, text string) {
		t.Helper()
		if _, err := objstore.PutBytes(context.Background(), other, key, []byte(text), objstore.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	w.a.Remote = func(ctx context.Context, url string) ([]sources.File, error) {
		return ListStored(ctx, other, "s3://other", strings.TrimPrefix(url, "s3://other/"))
	}
	server := teacherstest.New(t, func(teacherstest.Request) teacherstest.Reply { return teacherstest.Reply{Content: "x"} })
	text := fmt.Sprintf("name: grows\nprompts: [{path: 's3://other/day-*.jsonl'}, {path: local.jsonl}]\nteachers: [{id: t, model: m, base_url: '%s'}]\n", server.URL)
	put("day-1.jsonl", `{"prompt": "one"}`+"\n")
	w.file("local.jsonl", `{"prompt": "here"}`+"\n")
	r := parsed(t, text)
	if !GrowsElsewhere(r) || GrowsElsewhere(parsed(t, strings.Replace(text, "s3://other/", "", 1))) {
		t.Error("which recipes read other stores is wrong")
	}
	s, err := Submit(context.Background(), w.bucket, r, sources.Finder{Dir: w.dir, Remote: w.a.Remote})
	if err != nil {
		t.Fatal(err)
	}
	in := wire.RepinInput{Dataset: "grows", RecipeDigest: s.RecipeDigest, SourcesDigest: s.SourcesDigest}
	build := func() (wire.BuildOutput, int) {
		t.Helper()
		before := server.Stats().Requests
		digest := must[string](w, wire.ActivityRepin, in)
		w.builds++
		run := &run{w: w, ref: wire.BuildRef{Dataset: "grows", BuildID: fmt.Sprintf("20261201T00000%dZ-00000000", w.builds), RecipeDigest: s.RecipeDigest, SourcesDigest: digest}}
		run.reports, run.counts = map[string]*wire.StreamSummary{}, map[string]wire.AskCounts{}
		run.plan = must[wire.PlanOutput](w, wire.ActivityPlan, run.ref)
		run.ask().refine()
		out, _ := run.seal()
		return out, server.Stats().Requests - before
	}
	if digest := must[string](w, wire.ActivityRepin, in); digest != s.SourcesDigest {
		t.Errorf("nothing is new, and the list is %s instead of %s", digest, s.SourcesDigest)
	}
	if out, asked := build(); out.Version != 1 || asked != 2 {
		t.Errorf("%+v, %d asked, want version 1 of 2", out, asked)
	}
	put("day-2.jsonl", `{"prompt": "two"}`+"\n"+`{"prompt": "three"}`+"\n")
	put("night-2.jsonl", `{"prompt": "four"}`+"\n")
	if out, asked := build(); out.Version != 2 || asked != 2 {
		t.Errorf("%+v, %d asked, want version 2 with 2 more", out, asked)
	}
	if out, asked := build(); !out.Unchanged || asked != 0 {
		t.Errorf("%+v, %d asked, want nothing new", out, asked)
	}
	// Somebody else's list, and one that is gone.
	in.SourcesDigest = strings.Repeat("0", 64)
	if _, err := call[string](w, wire.ActivityRepin, in); err == nil {
		t.Error("a list that is not there is taken")
	}
}

// A worker fetches images of sources that grow from whom its policy names alone.
func TestImagesOfSourcesThatGrow(t *testing.T) {
	w, other := newWorld(t), mem.New("other")
	w.a.Remote = func(ctx context.Context, url string) ([]sources.File, error) {
		return ListStored(ctx, other, "s3://other", strings.TrimPrefix(url, "s3://other/"))
	}
	put := func(key, text string) {
		t.Helper()
		if _, err := objstore.PutBytes(t.Context(), other, key, []byte(text), objstore.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	put("day-1.jsonl", `{"prompt": "one"}`+"\n")
	r := parsed(t, "name: grows\nprompts: [{path: 's3://other/day-*.jsonl', fields: {images: seen}}]\nteachers: [{id: t, model: m, base_url: 'http://127.0.0.1:1/v1'}]\n")
	s, err := Submit(t.Context(), w.bucket, r, sources.Finder{Dir: w.dir, Remote: w.a.Remote})
	if err != nil {
		t.Fatal(err)
	}
	put("day-2.jsonl", `{"prompt": "two", "seen": ["https://127.0.0.1:1/secret.png"]}`+"\n")
	var asked []string
	w.a.MayAsk = func(address, key string) error {
		asked = append(asked, address+" "+key)
		return errors.New("this worker does not ask there")
	}
	digest := must[string](w, wire.ActivityRepin, wire.RepinInput{Dataset: "grows", RecipeDigest: s.RecipeDigest, SourcesDigest: s.SourcesDigest})
	text, _, err := objstore.ReadAll(t.Context(), w.bucket, sourcesKey(digest), maxSources)
	if err != nil {
		t.Fatal(err)
	}
	var list Sources
	if err := json.Unmarshal(text, &list); err != nil || list.Images == nil {
		t.Fatalf("%v in %s", err, text)
	}
	index, _, err := objstore.ReadAll(t.Context(), w.bucket, list.Images.Key, maxImageIndex)
	if err != nil || !strings.Contains(string(index), "this worker does not ask there") {
		t.Errorf("%v in %s", err, index)
	}
	if len(asked) != 1 || asked[0] != "https://127.0.0.1:1/secret.png " {
		t.Errorf("the policy was asked about %q", asked)
	}
}
