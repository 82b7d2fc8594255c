package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/verify"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
)

// newApp is a command line with a home of its own, without embedded services.
func newApp(t *testing.T, variables map[string]string) (a *app, out, talk *bytes.Buffer) {
	t.Helper()
	out, talk = new(bytes.Buffer), new(bytes.Buffer)
	a = &app{
		out: out, err: talk, in: strings.NewReader(""), interrupted: make(chan struct{}),
		lookup: func(name string) (string, bool) {
			v, ok := variables[name]
			return v, ok
		},
		homeDir: filepath.Join(t.TempDir(), "home"),
	}
	return a, out, talk
}

// Every recipe of init is loaded, checked and planned as it was written.
func TestStartersWork(t *testing.T) {
	keys := map[string]string{"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}
	for _, s := range starters {
		t.Run(s.name, func(t *testing.T) {
			a, _, _ := newApp(t, nil)
			dir := filepath.Join(t.TempDir(), "mine")
			if err := a.initRecipe(dir, s.name); err != nil {
				t.Fatal(err)
			}
			r, err := recipe.Load(filepath.Join(dir, recipeFile))
			if err != nil {
				t.Fatal(err)
			}
			if r.Name != "mine" {
				t.Errorf("the dataset is %q", r.Name)
			}
			if lines := bytes.Count(r.Raw, []byte("\n")); lines > 22 {
				t.Errorf("the recipe has %d lines", lines)
			}
			checkKey(t, r, keys[s.name])
			if err := r.CheckStore(true); err != nil {
				t.Errorf("on a shared store: %v", err)
			}
			p, err := a.makePlan(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			if n := int64(len(starterProblems)); p.Tasks != n || p.Asks != n*int64(len(r.Teachers)) {
				t.Errorf("%d tasks and %d asks of %d problems", p.Tasks, p.Asks, n)
			}
			checkSchema(t, dir)
		})
	}
}

// checkKey checks that the recipe needs this variable, or none for "".
func checkKey(t *testing.T, r *recipe.Recipe, name string) {
	t.Helper()
	lookup := func(asked string) (string, bool) { return "secret", asked == name }
	if err := r.CheckEnv(lookup); err != nil {
		t.Errorf("with %q set: %v", name, err)
	}
	none := func(string) (string, bool) { return "", false }
	if err := r.CheckEnv(none); (err != nil) != (name != "") {
		t.Errorf("with nothing set: %v", err)
	}
}

// checkSchema holds the recipe to the schema that was written beside it, as an
// editor does.
func checkSchema(t *testing.T, dir string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, recipeFile))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(text), "# yaml-language-server: $schema=./"+schemaFile+"\n") {
		t.Errorf("the first line names no schema: %.80s", text)
	}
	asJSON, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(asJSON))
	if err != nil {
		t.Fatal(err)
	}
	schema, err := jsonschema.NewCompiler().Compile(filepath.Join(dir, schemaFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(value); err != nil {
		t.Error(err)
	}
}

// Names that are numbers or words to YAML are read back as they were meant.
func TestStarterNames(t *testing.T) {
	for _, name := range []string{"maths", "2026", "1e3", "0x1f", "true", "null", "no", "on", "y", "1.5", "a.b-c_d", "nan", "9.99.9"} {
		s := starterFor("demo")
		r, err := recipe.Parse("recipe.yaml", []byte(s.recipe(name)))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if r.Name != name {
			t.Errorf("%s is read back as %s", name, r.Name)
		}
	}
}

// The recorded answers of a starter answer exactly its prompts.
func TestStarterAnswersFitTheirPrompts(t *testing.T) {
	for _, name := range []string{"recorded", "demo"} {
		s := starterFor(name)
		files, err := s.files("mine")
		if err != nil {
			t.Fatal(err)
		}
		var questions []string
		for _, f := range files {
			if !strings.HasSuffix(f.name, ".jsonl") {
				continue
			}
			var here []string
			for line := range bytes.Lines(f.data) {
				var row struct{ Question, Answer string }
				if err := json.Unmarshal(line, &row); err != nil || row.Question == "" || row.Answer == "" {
					t.Fatalf("%s: %v in %s", f.name, err, line)
				}
				here = append(here, row.Question)
			}
			if questions == nil {
				questions = here
			} else if strings.Join(here, "\n") != strings.Join(questions, "\n") {
				t.Errorf("%s: %s answers other questions than prompts.jsonl asks", name, f.name)
			}
		}
		if len(questions) != len(starterProblems) {
			t.Errorf("%s: %d prompts", name, len(questions))
		}
	}
}

// The careful answers are right and the hasty ones are not all right, so that
// the demo has something to compare.
func TestStarterAnswersAreJudged(t *testing.T) {
	v, err := verify.New("math", nil)
	if err != nil {
		t.Fatal(err)
	}
	wrong := 0
	for _, p := range starterProblems {
		if got := v.Verify(t.Context(), verify.Input{Content: p.careful, Gold: &p.gold}); got.Verdict != datasets.Pass {
			t.Errorf("%s: the careful answer: %s (%s)", p.question, got.Verdict, got.Reason)
		}
		switch got := v.Verify(t.Context(), verify.Input{Content: p.hasty, Gold: &p.gold}); got.Verdict {
		case datasets.Pass:
		case datasets.Fail:
			wrong++
		default:
			t.Errorf("%s: the hasty answer: %s (%s)", p.question, got.Verdict, got.Reason)
		}
	}
	if wrong != 4 {
		t.Errorf("%d hasty answers are wrong", wrong)
	}
}

func TestQuoted(t *testing.T) {
	for path, want := range map[string]string{
		"mine/recipe.yaml": "mine/recipe.yaml", "My Maths/r.yaml": "'My Maths/r.yaml'", "it's": `'it'\''s'`, "$(x)": "'$(x)'", "ü": "'ü'", "": "''",
	} {
		if got := quoted(path); got != want {
			t.Errorf("quoted(%q) = %s, want %s", path, got, want)
		}
	}
}
