package activities

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/views"
	"github.com/stillhouse-data/stillhouse/internal/images"
	"github.com/stillhouse-data/stillhouse/internal/sources"
	"github.com/stillhouse-data/stillhouse/teachers/teacherstest"
)

// pixel is a PNG of one pixel, and gif a GIF.
var pixel, _ = base64.StdEncoding.DecodeString("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")

var gif = []byte("GIF89a\x01\x00\x01\x00\x00\xff\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x00;")

// sent are the addresses of the images in a request, and where its text is.
func sent(t *testing.T, body []byte) []string {
	t.Helper()
	var r struct {
		Messages []struct {
			Content json.RawMessage
		}
	}
	if err := json.Unmarshal(body, &r); err != nil {
		t.Fatal(err)
	}
	var parts []struct {
		Type     string
		Text     string
		ImageURL struct{ URL string } `json:"image_url"`
	}
	last := r.Messages[len(r.Messages)-1].Content
	if json.Unmarshal(last, &parts) != nil {
		return []string{string(last)}
	}
	var out []string
	for _, p := range parts {
		out = append(out, p.Text+p.ImageURL.URL)
	}
	return out
}

const imageRecipe = `name: %s
prompts: [{path: data/p.jsonl, fields: {prompt: question, images: images}, bad_rows: %d}]
teachers: [{id: t, model: m, base_url: %s}]
`

func TestImagesFromFileToRow(t *testing.T) {
	var mu sync.Mutex
	bodies := map[string][]byte{}
	server := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
		mu.Lock()
		defer mu.Unlock()
		bodies[r.Prompt] = r.Body
		return teacherstest.Reply{Content: "a cat"}
	})
	w := newWorld(t)
	folder := filepath.Join(w.dir, "data", "pictures")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	w.file("data/pictures/cat.png", string(pixel))
	w.file("data/pictures/cat.gif", string(gif))
	uri := "data:image/png;base64," + base64.StdEncoding.EncodeToString(pixel)
	w.file("data/p.jsonl", fmt.Sprintf(`{"question":"one","images":"pictures/cat.png"}
{"question":"two","images":["pictures/cat.gif",%q]}
{"question":"none"}
`, uri))
	recipe := fmt.Sprintf(imageRecipe, "d", 0, server.URL)
	_, result := w.build(recipe)
	if result.Accepted != 3 {
		t.Fatalf("%+v", result)
	}
	gifURI := "data:image/gif;base64," + base64.StdEncoding.EncodeToString(gif)
	for prompt, want := range map[string][]string{"one": {uri, "one"}, "two": {gifURI, uri, "two"}, "none": {`"none"`}} {
		if got := sent(t, bodies[prompt]); !slices.Equal(got, want) {
			t.Errorf("%s: sent %.200q", prompt, got)
		}
	}
	keys := map[string]int{}
	for _, r := range rows[datasets.Row](w, "d", datasets.TableTrain) {
		for _, im := range r.Images {
			keys[im.Key]++
			data, err := w.a.Bucket.Head(context.Background(), im.Key)
			if err != nil || data.Size == 0 || !strings.Contains(im.Key, im.Digest) || !strings.HasSuffix(im.Key, images.Extension(im.MediaType)) {
				t.Errorf("%+v: %v", im, err)
			}
		}
	}
	if len(keys) != 2 || result.Rows["train"] != 3 {
		t.Errorf("%v", keys)
	}
	for _, p := range rows[datasets.PromptRow](w, "d", datasets.TablePrompts) {
		if (p.Source == "p.jsonl:2") != (len(p.Images) == 2) {
			t.Errorf("%s: %v", p.Source, p.Images)
		}
	}

	// The same picture under another name and in another form is the same prompt.
	asked := server.Stats().Requests
	w.file("data/pictures/other name.png", string(pixel))
	w.file("data/p.jsonl", fmt.Sprintf(`{"question":"one","images":%q}
{"question":"two","images":["./pictures/cat.gif","pictures/other name.png"]}
{"question":"none","images":[]}
`, uri))
	w.build(recipe)
	// Another picture under the same name is another prompt.
	w.file("data/pictures/cat.gif", string(gif)+" ")
	w.build(recipe)
	if s := server.Stats(); s.Requests != asked+1 || s.PaidTwice != 0 {
		t.Errorf("%d requests more", s.Requests-asked)
	}

	// A view that holds text alone says so.
	dir := filepath.Join(t.TempDir(), "out")
	_, err := views.Export(context.Background(), w.a.Catalog, w.manifest("d"), views.ViewMessages, views.Folder(dir), views.Options{})
	if err == nil || !strings.Contains(err.Error(), "images") {
		t.Errorf("%v", err)
	}
}

func TestImagesThatCannotBeUsed(t *testing.T) {
	server := teacherstest.New(t, func(teacherstest.Request) teacherstest.Reply { return teacherstest.Reply{Content: "x"} })
	w := newWorld(t)
	if err := os.MkdirAll(filepath.Join(w.dir, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	w.file("secret.png", string(pixel))
	w.file("data/notes.txt", "hello")
	w.file("data/cat.png", string(pixel))
	if err := os.Symlink("../secret.png", filepath.Join(w.dir, "data", "link.png")); err != nil {
		t.Skip(err)
	}
	var b strings.Builder
	for i, ref := range []string{"../secret.png", "link.png", "none.png", "notes.txt", "/etc/hostname", "https://127.0.0.1:1/cat.png", "http://example.com/cat.png", "data:image/png;base64,aGk=", "cat.png"} {
		fmt.Fprintf(&b, "{\"question\":\"q%d\",\"images\":%q}\n", i, ref)
	}
	w.file("data/p.jsonl", b.String())
	_, err := call[struct{}](w, "Plan", w.submit(fmt.Sprintf(imageRecipe, "bad", 7, server.URL)))
	if err == nil || !strings.Contains(err.Error(), "8 bad row(s), and bad_rows allows 7") ||
		!strings.Contains(err.Error(), "p.jsonl:1: image ../secret.png: leads out of the prompt file's folder") ||
		!strings.Contains(err.Error(), "p.jsonl:2: image link.png: leads out") {
		t.Errorf("%v", err)
	}
	r := w.start(fmt.Sprintf(imageRecipe, "good", 8, server.URL))
	if r.plan.Tasks != 1 || r.plan.BadRows != 8 {
		t.Errorf("%+v", r.plan)
	}
	// What was not there when the build was submitted is not looked for later.
	for _, key := range []string{"secret.png", "notes.txt"} {
		for at := range w.bucket.List(context.Background(), "sources/", "") {
			if strings.Contains(at.Key, key) {
				t.Errorf("%s is in the store", at.Key)
			}
		}
	}
}

// The limit counts the rows that can be used, as the plan does.
func TestImagesOfALimitedSource(t *testing.T) {
	w := newWorld(t)
	for _, bad := range []int{0, 3} {
		var b strings.Builder
		for i := range 10 {
			ref := fmt.Sprintf("%d.png", i)
			if i >= bad {
				w.file(ref, string(pixel)+fmt.Sprint(i))
			}
			fmt.Fprintf(&b, "{\"prompt\":\"q%d\",\"images\":%q}\n", i, ref)
		}
		w.file("p.jsonl", b.String())
		for i := range bad {
			_ = os.Remove(filepath.Join(w.dir, fmt.Sprintf("%d.png", i)))
		}
		r := w.start("name: d\nprompts: [{path: p.jsonl, fields: {images: images}, limit: 4, bad_rows: 3}]\nteachers: [{model: m, base_url: http://localhost/v1}]\n")
		if r.plan.Tasks != 4 || r.plan.BadRows != int64(bad) {
			t.Errorf("%d bad: %+v", bad, r.plan)
		}
	}
}

// The index reads back as it was written, in one order.
func TestImageIndex(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.png", "b\nc.png"} {
		if err := os.WriteFile(filepath.Join(dir, name), pixel, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := sources.File{Name: "p.jsonl", Path: filepath.Join(dir, "p.jsonl"), SHA256: "d1"}
	find := func(refs ...string) []byte {
		r := parsed(t, "name: d\nprompts: [{path: p.jsonl, fields: {images: i}}]\nteachers: [{model: m, base_url: http://localhost/v1}]\n")
		im, err := FindImages(t.Context(), r, [][]sources.File{{}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer im.Close()
		for _, ref := range refs {
			_, _, _ = im.Image(t.Context(), file, sources.ImageRef{Text: ref})
		}
		text, err := im.encode()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	text := find("a.png", "b\nc.png", "none.png", "a.png")
	if !bytes.Equal(text, find("none.png", "b\nc.png", "a.png")) || bytes.Count(text, []byte("\n")) != 3 {
		t.Errorf("%s", text)
	}
	im, err := decodeImages(text)
	if err != nil {
		t.Fatal(err)
	}
	got, n, err := im.Image(t.Context(), file, sources.ImageRef{Text: "b\nc.png"})
	if err != nil || n != int64(len(pixel)) || got.MediaType != "image/png" {
		t.Errorf("%+v %v", got, err)
	}
	if _, _, err := im.Image(t.Context(), file, sources.ImageRef{Text: "none.png"}); err == nil || err.Error() != "image none.png: there is no such file in the prompt file's folder" {
		t.Errorf("%v", err)
	}
	// Another prompt file's path of that name is another image.
	if _, _, err := im.Image(t.Context(), sources.File{SHA256: "d2"}, sources.ImageRef{Text: "a.png"}); err == nil || !strings.Contains(err.Error(), "was not there when the build was started") {
		t.Errorf("%v", err)
	}
	if _, err := decodeImages([]byte("{\"ref\":\"a\"}\nnot JSON\n")); err == nil {
		t.Error("a damaged index is read")
	}
}

func FuzzImageIndex(f *testing.F) {
	f.Add([]byte("{\"file\":\"d\",\"ref\":\"a\",\"digest\":\"x\",\"media_type\":\"image/png\",\"bytes\":3}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		im, err := decodeImages(text)
		if err == nil {
			_, _, _ = im.Image(t.Context(), sources.File{}, sources.ImageRef{Text: "a"})
		}
	})
}
