package activities

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/teachers/teacherstest"
)

// Whoever may write to the store must not be able to change where a build that
// another started sends its keys: a recipe counts only as it was submitted.
func TestAChangedRecipeIsNotCarriedOut(t *testing.T) {
	asked := false
	evil := teacherstest.New(t, func(teacherstest.Request) teacherstest.Reply {
		asked = true
		return teacherstest.Reply{Content: "x"}
	})
	const text = "name: d\nprompts: [{path: p.jsonl}]\nteachers: [{id: t, model: m, base_url: http://127.0.0.1:1/v1}]\n"
	for _, what := range []string{"recipes/", "sources/"} {
		w := newWorld(t)
		w.file("p.jsonl", `{"prompt":"q"}`+"\n")
		ref := w.submit(text)
		key := recipeKey(ref.RecipeDigest)
		if what == "sources/" {
			key = sourcesKey(ref.SourcesDigest)
		}
		there, _, err := objstore.ReadAll(context.Background(), w.bucket, key, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		changed := append(bytes.ReplaceAll(there, []byte("http://127.0.0.1:1/v1"), []byte(evil.URL)), '\n')
		if _, err := objstore.PutBytes(context.Background(), w.bucket, key, changed, objstore.PutOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := call[struct{}](w, "Plan", ref); err == nil || !strings.Contains(err.Error(), "somebody has changed it in the store") {
			t.Errorf("%s: %v", key, err)
		}
	}
	if asked {
		t.Error("the other endpoint was asked")
	}
}
