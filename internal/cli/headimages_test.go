package cli

import (
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
)

func TestHeadNamesImages(t *testing.T) {
	images := []datasets.Image{{Digest: "ab", MediaType: "image/png", Key: "sources/ab/image.png"}, {Digest: "cd", MediaType: "image/gif", Key: "sources/cd/image.gif"}}
	const want = "images        image/png sources/ab/image.png, image/gif sources/cd/image.gif\n"
	for _, e := range []entry{entryOfRow(&datasets.Row{Images: images}), entryOfPrompt(&datasets.PromptRow{Images: images})} {
		var b strings.Builder
		if err := e.print(&b, 1, false); err != nil || !strings.Contains(b.String(), want) {
			t.Errorf("%v in\n%s", err, b.String())
		}
	}
	var b strings.Builder
	if err := entryOfRow(&datasets.Row{}).print(&b, 1, false); err != nil || strings.Contains(b.String(), "images") {
		t.Errorf("%v %s", err, b.String())
	}
}
