package views_test

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/datasets/report"
	"github.com/stillhouse-data/stillhouse/datasets/views"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

// hostile is text that tries to leave wherever it stands.
const hostile = "x\"\n---\nlicense: mit\n- <script>alert(1)</script> [a](javascript:1) | ` ``` &a *b %c\u2028\u0085\x00\x1b[31m: {}'"

func TestACardHoldsWhatOthersWrote(t *testing.T) {
	c := cardOf(t, func(m *catalog.Manifest) {
		m.Teachers[0].Model = hostile
		m.Teachers[0].Terms = catalog.Terms{Licence: hostile, URL: "https://a/\"\nb: c", Training: catalog.TrainingUnknown}
		m.Teachers[0].Serves = json.RawMessage(`[{"Domain":` + asJSON(hostile) + `,"Effort":["a|b"]}]`)
		m.Methods = []catalog.Method{{Kind: hostile, Name: hostile, Version: hostile, When: hostile, Options: json.RawMessage(`{"a":` + asJSON(hostile) + `}`)}}
		m.Rejected = map[string]int64{hostile: 3}
		m.Sources = []catalog.Source{{Path: hostile, SHA256: strings.Repeat("a", 64)}}
		m.EvaluationSets = m.Sources
		m.Tool = hostile
		m.Counts.Filtered = &datasets.Filtered{Contaminated: 2, Flags: map[string]int64{hostile: 1}, Sets: map[string]int64{hostile: 2}}
	})
	front, body, ok := strings.Cut(strings.TrimPrefix(c, "---\n"), "\n---\n")
	if !ok || strings.Contains(front, "---") && !strings.Contains(front, `\U`) {
		t.Fatalf("%s", c)
	}
	var card struct {
		Licence string `yaml:"license"`
		Name    string `yaml:"license_name"`
		Link    string `yaml:"license_link"`
	}
	if err := yaml.Unmarshal([]byte(front), &card); err != nil {
		t.Fatal(err)
	}
	if card.Licence != "other" || card.Name != hostile || card.Link != "https://a/\"\nb: c" {
		t.Errorf("%q %q %q", card.Licence, card.Name, card.Link)
	}
	outside := strings.ReplaceAll(body, `\[`, "")
	for _, found := range []string{"<script>", "[a](", "\x1b[31m: {}'\n---"} {
		if strings.Contains(withoutCode(outside), found) {
			t.Errorf("%q stands in the card:\n%s", found, body)
		}
	}
	for line := range strings.SplitSeq(body, "\n") {
		if strings.HasPrefix(line, "license: mit") || line == "---" {
			t.Errorf("a text made a line of its own: %q", line)
		}
	}
}

// A backslash of others must not take away the one that keeps their text in its
// place.
func TestACardHoldsBackslashes(t *testing.T) {
	const hostile = `x\[a](https://b.example) \\[a](c) \| \\|[a](d)`
	card := cardOf(t, func(m *catalog.Manifest) {
		m.Teachers[0].Model = hostile
		m.Teachers[0].Terms.Licence = hostile
		m.Methods = []catalog.Method{{Kind: hostile, Name: hostile, Version: hostile, When: hostile, Options: json.RawMessage(`{"a":` + asJSON(hostile) + `}`)}}
		m.Tool = hostile
	})
	_, body, _ := strings.Cut(strings.TrimPrefix(card, "---\n"), "\n---\n")
	escaped := regexp.MustCompile("\\\\[!-/:-@[-`{-~]")
	cells := 0
	for line := range strings.SplitSeq(body, "\n") {
		bare := escaped.ReplaceAllString(line, "") // as a table is cut into cells
		if n := strings.Count(bare, "|"); !strings.HasPrefix(line, "|") {
			cells = 0
		} else if cells == 0 {
			cells = n
		} else if n != cells {
			t.Errorf("%d bars instead of %d: %s", n, cells, line)
		}
		if strings.Contains(withoutCode(bare), "[a](") {
			t.Errorf("a link stands in the card: %s", line)
		}
	}
	if !strings.Contains(body, `x\\\[a](https://b.example)`) {
		t.Errorf("the text is gone:\n%s", body)
	}
}

// withoutCode is Markdown without what stands between backticks, where nothing
// is markup.
func withoutCode(s string) string {
	var b strings.Builder
	for i, part := range strings.Split(s, "`") {
		if i%2 == 0 {
			b.WriteString(part)
		}
	}
	return b.String()
}

func asJSON(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

// cardOf exports a version with a changed manifest and gives its card.
func cardOf(t *testing.T, change func(*catalog.Manifest)) string {
	t.Helper()
	f := usual(t, "b1")
	m := *f.m
	m.Teachers = append([]catalog.ManifestTeacher(nil), f.m.Teachers...)
	change(&m)
	dir := filepath.Join(t.TempDir(), "out")
	if _, err := views.Export(t.Context(), f.c, &m, views.ViewMessages, views.Folder(dir), views.Options{Version: f.v}); err != nil {
		t.Fatal(err)
	}
	return tree(t, dir)["README.md"]
}

func TestACardSaysHowTheRowsCameToBe(t *testing.T) {
	f := usual(t, "b1")
	m := *f.m
	r := report.Report{FormatVersion: report.FormatVersion, Cells: []report.Cell{{Teacher: "k3", Domain: "math", Effort: "high", Figures: report.Figures{
		Asks: 10, Answers: 9, Accepted: 6, Selected: 6, PassOfJudged: &report.Proportion{Count: 6, Of: 8, Value: 0.75, Low: 0.41, High: 0.93},
	}}}}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	key, err := catalog.ReportKey("maths", "b1", "report.json")
	if err != nil {
		t.Fatal(err)
	}
	m.Reports = []string{key}
	export := func() (map[string]string, error) {
		dir := filepath.Join(t.TempDir(), "out")
		_, err := views.Export(t.Context(), f.c, &m, views.ViewMessages, views.Folder(dir), views.Options{Version: f.v})
		if err != nil {
			return nil, err
		}
		return tree(t, dir), nil
	}
	if _, err := export(); err == nil || !strings.Contains(err.Error(), "report.json is gone") {
		t.Errorf("%v", err)
	}
	if _, err := objstore.PutBytes(t.Context(), f.c.Bucket(), key, text, objstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	m.Teachers = append([]catalog.ManifestTeacher(nil), m.Teachers...)
	m.Teachers[0].Serves = json.RawMessage(`[{"Domain":"math","Effort":["high","max"]},{"Domain":"","Effort":null}]`)
	m.Methods = []catalog.Method{{Kind: catalog.MethodVerifier, Name: "math", Version: "2", When: `domain == "math"`}}
	m.Counts.Asks, m.Counts.Filtered = 10, &datasets.Filtered{Duplicates: 4}
	m.Rejected = map[string]int64{"finish:length": 2}
	files, err := export()
	if err != nil {
		t.Fatal(err)
	}
	card := files["README.md"]
	for _, want := range []string{
		"license: \"mit\"\n", "size_categories:\n- \"n<1K\"\n", "- teacher `k3` serves math (high, max), every domain\n",
		"| verifier | math | 2 | `domain == \"math\"` |  |", "| asks | 10 |", "| tasks left out: duplicates | 4 |", "| finish:length | 2 |",
		"| k3 | math | high | 10 | 9 | 75.0 % (41.0 to 93.0) of 8 | 6 | 6 |  |", "| version | maths, 1 |", "not held against evaluation sets",
	} {
		if !strings.Contains(card, want) {
			t.Errorf("the card lacks %q:\n%s", want, card)
		}
	}
	var front struct {
		Info struct {
			Download int64 `yaml:"download_size"`
			Splits   []struct {
				Name     string `yaml:"name"`
				Bytes    int64  `yaml:"num_bytes"`
				Examples int64  `yaml:"num_examples"`
			} `yaml:"splits"`
		} `yaml:"dataset_info"`
	}
	if err := yaml.Unmarshal([]byte(strings.Split(card, "\n---\n")[0]), &front); err != nil {
		t.Fatal(err)
	}
	var sizes [2]int64
	for name, text := range files {
		if strings.HasPrefix(name, "data/train") {
			sizes[0] += int64(len(text))
		} else if strings.HasPrefix(name, "data/test") {
			sizes[1] += int64(len(text))
		}
	}
	got := []any{front.Info.Download, front.Info.Splits[0].Bytes, front.Info.Splits[1].Bytes, front.Info.Splits[0].Examples}
	if diff := cmp.Diff([]any{sizes[0] + sizes[1], sizes[0], sizes[1], int64(5)}, got); diff != "" {
		t.Error(diff)
	}
}
