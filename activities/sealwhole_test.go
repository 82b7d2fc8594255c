package activities

import (
	"context"
	"fmt"
	"testing"

	"github.com/stillhouse-data/stillhouse/teachers/teacherstest"
)

// A build that finds its own rows published, but not all of the files there, has
// not found them: it publishes them again, and asks nobody.
func TestAVersionThatLostAFileIsPublishedAgain(t *testing.T) {
	server := teacherstest.New(t, spelled)
	w := newWorld(t)
	w.file("p.jsonl", sums(4))
	text := fmt.Sprintf("name: d\nprompts: [{path: p.jsonl, fields: {prompt: question}}]\nteachers: [{id: a, model: m, base_url: %s}]\n", server.URL)
	w.build(text)
	if out, _ := w.build(text); !out.Unchanged || out.Version != 1 {
		t.Fatalf("over a whole version: %+v", out)
	}
	key := w.manifest("d").Files[0].Key
	if err := w.bucket.Delete(context.Background(), key); err != nil {
		t.Fatal(err)
	}
	asked := server.Stats().Requests
	out, _ := w.build(text)
	if out.Unchanged || out.Version != 2 || server.Stats().Requests != asked {
		t.Errorf("%s was gone: %+v, %d asked again", key, out, server.Stats().Requests-asked)
	}
	if r, err := w.a.Catalog.Verify(context.Background(), "d", nil); err != nil || !r.OK() {
		t.Errorf("%+v, %v", r, err)
	}
}
