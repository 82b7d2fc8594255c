package views_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/datasets/views"
	"github.com/stillhouse-data/stillhouse/datasets/views/viewstest"
	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

// Prompts that show images are refused until images are asked for, and then come
// with their bytes.
func TestRoutedPromptsShowImages(t *testing.T) {
	shown := task(2, "math", "high", "k3")
	var picture []byte
	for digest, data := range viewstest.Pictures(t) {
		shown.Images = []datasets.Image{{Digest: digest, MediaType: "image/png", Key: "sources/" + digest + "/picture.png"}}
		picture = data
		break
	}
	f := withTable(t, datasets.TablePrompts, []catalog.ManifestTeacher{expert("k3", "")}, []datasets.PromptRow{task(1, "math", "high", "k3"), shown})
	if _, err := objstore.PutBytes(t.Context(), f.c.Bucket(), shown.Images[0].Key, picture, objstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	export := func(opt views.Options) (string, error) {
		dir := filepath.Join(t.TempDir(), "out")
		opt.Version, opt.Form = f.v, views.JSONL
		_, err := views.Export(t.Context(), f.c, f.m, views.ViewPromptsRouted, views.Folder(dir), opt)
		return dir, err
	}
	if _, err := export(views.Options{}); !errors.Is(err, views.ErrUnsupported) || !strings.Contains(err.Error(), "--images column") {
		t.Errorf("images that nobody asked for: %v", err)
	}
	for _, tag := range []string{"", views.TagDataset, views.TagTeacherID} {
		dir, err := export(views.Options{Images: views.ImagesColumn, Tag: tag})
		if err != nil {
			t.Fatalf("tag %q: %v", tag, err)
		}
		name := shown.Images[0].Digest + ".png"
		if data, err := os.ReadFile(filepath.Join(dir, "images", name)); err != nil || !bytes.Equal(data, picture) {
			t.Errorf("tag %q: the picture is not beside the rows: %v", tag, err)
		}
		rows, err := os.ReadFile(filepath.Join(dir, "data", "train-00000-of-00001.jsonl"))
		if err != nil || strings.Count(string(rows), `"images":["images/`+name+`"]`) != 1 || strings.Count(string(rows), `"images":[]`) != 1 {
			t.Errorf("tag %q: %v\n%s", tag, err, rows)
		}
	}
	if _, err := export(views.Options{Images: views.ImagesColumn, Tag: views.TagAgentRef}); !errors.Is(err, views.ErrUnknownView) {
		t.Errorf("a tag whose readers show no images: %v", err)
	}
	shown.Messages = append(shown.Messages, chat.Message{Role: "assistant", Content: ptr("a")}, chat.Message{Role: "user", Content: ptr("and now?")})
	f = withTable(t, datasets.TablePrompts, []catalog.ManifestTeacher{expert("k3", "")}, []datasets.PromptRow{shown})
	if _, err := export(views.Options{Images: views.ImagesColumn}); !errors.Is(err, views.ErrUnsupported) || !strings.Contains(err.Error(), "2 turns of the user") {
		t.Errorf("images in one of several turns: %v", err)
	}
}
