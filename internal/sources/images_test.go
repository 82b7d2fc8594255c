package sources

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/images"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
)

// album knows every reference but those that say otherwise.
type album struct{}

func (album) Image(_ context.Context, f File, ref ImageRef) (chat.Image, int64, error) {
	switch {
	case ref.Data != nil:
		return chat.Image{Digest: fmt.Sprintf("%d bytes", len(ref.Data))}, int64(len(ref.Data)), nil
	case strings.HasPrefix(ref.Text, "bad"):
		return chat.Image{}, 0, &images.Fault{Ref: ref.Text, Reason: "is bad"}
	case ref.Text == "lost":
		return chat.Image{}, 0, errors.New("the network is down")
	case ref.Text == "large":
		return chat.Image{Digest: "large"}, 20 << 20, nil
	}
	return chat.Image{Digest: f.Name + ":" + ref.Text}, 100, nil
}

func TestImagesOfRows(t *testing.T) {
	many := strings.Repeat(`"a",`, 64) + `"a"`
	for _, tc := range []struct{ name, images, want string }{
		{"none", `null`, ""},
		{"an empty text", `" "`, ""},
		{"an empty list", `[]`, ""},
		{"a path", `"a/cat.png"`, "f:a/cat.png"},
		{"a list", `["a.png", " b.png "]`, "f:a.png f:b.png"},
		{"a list in a CSV file", `"[\"a.png\", \"b.png\"]"`, "f:a.png f:b.png"},
		{"objects", `[{"path":"a.png","bytes":null},{"url":"https://h/b.png"},{"type":"image_url","image_url":{"url":"https://h/c.png"}},{"image_url":"https://h/d.png"}]`,
			"f:a.png f:https://h/b.png f:https://h/c.png f:https://h/d.png"},
		{"a fault of the row", `["a.png","bad.png"]`, "! f.jsonl:7: image bad.png: is bad"},
		{"a fault of the way", `["lost"]`, "!! f.jsonl:7: the network is down"},
		{"another kind", `[3]`, "! f.jsonl:7: field images: image 1 is a number, want a path, a data URI or an https address"},
		{"an object of another kind", `[{"src":"a"}]`, "! f.jsonl:7: field images: image 1 is an object without bytes, path or url"},
		{"an empty reference", `["a",""]`, "! f.jsonl:7: field images: image 2 is an empty text"},
		{"no JSON", `"[a"`, "! f.jsonl:7: field images is no JSON: unexpected 'a' at byte 2"},
		{"too many", `[` + many + `]`, "! f.jsonl:7: field images holds 65 images; a prompt may have 64"},
		{"too large together", `["large","large","large","large"]`, "! f.jsonl:7: its images are larger than 64 MiB together; make them smaller"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m, err := NewMapper(&recipe.PromptSource{Fields: recipe.PromptFields{Images: "images"}})
			if err != nil {
				t.Fatal(err)
			}
			items, err := m.With(t.Context(), File{Name: "f"}, album{}).Items(rowOf(t, `{"prompt":"p","images":`+tc.images+`}`))
			var row *RowError
			got := ""
			switch {
			case errors.As(err, &row):
				got = "! " + err.Error()
			case err != nil:
				got = "!! " + err.Error()
			default:
				var digests []string
				for _, im := range items[0].Prompt.Images {
					digests = append(digests, im.Digest)
				}
				got = strings.Join(digests, " ")
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	m, _ := NewMapper(&recipe.PromptSource{Fields: recipe.PromptFields{Images: "images"}})
	if _, err := m.Items(rowOf(t, `{"prompt":"p","images":"a"}`)); err == nil {
		t.Error("a row with images is read without them")
	}
	if items, err := m.Items(rowOf(t, `{"prompt":"p"}`)); err != nil || len(items) != 1 {
		t.Errorf("%v %v", items, err)
	}
	// An image column of a Parquet file.
	row := Row{Where: "f:1", Values: map[string]any{"prompt": "p", "images": []any{map[string]any{"bytes": []byte("1234"), "path": "x"}, []byte("12")}}}
	items, err := m.With(t.Context(), File{}, album{}).Items(row)
	if err != nil || len(items[0].Prompt.Images) != 2 || items[0].Prompt.Images[0].Digest != "4 bytes" || items[0].Prompt.Images[1].Digest != "2 bytes" {
		t.Errorf("%+v %v", items, err)
	}
}
