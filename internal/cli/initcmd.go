package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
)

func init() { register(initCommand) }

func initCommand(a *app) *cobra.Command {
	var kind string
	cmd := &cobra.Command{
		Use:   "init [DIR] --for " + strings.Join(starterNames(), "|"),
		Short: "Write a recipe that works as it stands",
		Long: `Init writes a recipe of about a dozen lines, a few prompts for it and the schema
that editors complete it with, into DIR (default: the current folder). It never
overwrites a file.

  openai     OpenAI, or any endpoint that speaks its protocol
  anthropic  Anthropic, or any endpoint that speaks its messages protocol
  ollama     models that Ollama serves on this machine
  vllm       a model that vLLM serves on this machine
  recorded   answers that you have already; nothing is asked
  demo       two simulated teachers whose answers are in files; nothing is asked`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			dir := first(args)
			if dir == "" {
				dir = "."
			}
			return a.initRecipe(dir, kind)
		},
	}
	cmd.Flags().StringVar(&kind, "for", "", "whose answers: "+strings.Join(starterNames(), ", "))
	return cmd
}

// recipeFile and schemaFile are the files that every starter has.
const (
	recipeFile = "recipe.yaml"
	schemaFile = "recipe.schema.json"
)

func (a *app) initRecipe(dir, kind string) error {
	s := starterFor(kind)
	if s == nil {
		what := "--for is missing"
		if kind != "" {
			what = "--for " + kind
		}
		return usage("%s: want one of %s", what, strings.Join(starterNames(), ", "))
	}
	files, err := s.files(datasetName(dir))
	if err != nil {
		return err
	}
	if err := writeNew(dir, files); err != nil {
		return err
	}
	path := filepath.Join(dir, recipeFile)
	next := s.next(path, datasetName(dir))
	if a.json {
		var names []string
		for _, f := range files {
			names = append(names, filepath.Join(dir, f.name))
		}
		return a.printJSON(map[string]any{"recipe": path, "files": names, "next": next})
	}
	for _, f := range files {
		fmt.Fprintf(a.out, "wrote %s\n", printable(filepath.Join(dir, f.name)))
	}
	fmt.Fprintf(a.out, "\n%s\n\nNext:\n", s.about)
	for _, command := range next {
		fmt.Fprintf(a.out, "  %s\n", printable(command))
	}
	return nil
}

// datasetName is the folder's name where a dataset can have it, else maths.
// demo is the dataset of the command demo.
func datasetName(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		name := strings.ToLower(filepath.Base(abs))
		if catalog.ValidName(name) == nil && name != "demo" {
			return name
		}
	}
	return "maths"
}

// A newFile is a file that init writes.
type newFile struct {
	name string
	data []byte
}

// writeNew writes files that must not be there yet: all of them, or none.
func writeNew(dir string, files []newFile) (err error) {
	var there []string
	for _, f := range files {
		if _, err := os.Lstat(filepath.Join(dir, f.name)); err == nil {
			there = append(there, f.name)
		}
	}
	if len(there) > 0 {
		return usage("%s holds %s already, and init overwrites nothing; name another folder: stillhouse init DIR --for …", dir, strings.Join(there, ", "))
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the recipe's folder: %w", err)
	}
	var written []string
	defer func() {
		if err != nil {
			for _, path := range written {
				err = errors.Join(err, os.Remove(path))
			}
		}
	}()
	for _, f := range files {
		path := filepath.Join(dir, f.name)
		out, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if errors.Is(err, fs.ErrExist) {
			return usage("%s came to be while init ran; it was not overwritten", path)
		}
		if err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
		written = append(written, path)
		_, err = out.Write(f.data)
		if err := errors.Join(err, out.Close()); err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
	}
	return nil
}

// A starter is a recipe that init writes.
type starter struct {
	name     string
	about    string   // what the user should know, in a line or two
	head     string   // comment lines at the top
	teachers string   // the YAML under teachers:
	recorded []string // files of recorded answers that go with it
	before   string   // a command to run first
}

// starters are the recipes of init, in the order that the help shows them.
var starters = []starter{
	{
		name:   "openai",
		about:  "The recipe asks OpenAI. Any endpoint that speaks chat completions works: change base_url, model and api_key_env.",
		before: "export OPENAI_API_KEY=…",
		teachers: `  - api: openai                       # openai-batch: within a day, at half the price
    base_url: https://api.openai.com/v1
    model: gpt-4.1-mini
    api_key_env: OPENAI_API_KEY       # the variable's name, never the key
    params: {max_completion_tokens: 2048}
    terms: {training: unknown}        # read the provider's terms, then: allowed or forbidden
`,
	},
	{
		name:   "anthropic",
		about:  "The recipe asks Anthropic. For answers with reasoning add thinking: {type: enabled, budget_tokens: 4096} to params, and raise max_tokens by as much.",
		before: "export ANTHROPIC_API_KEY=…",
		teachers: `  - api: anthropic                    # anthropic-batch: within a day, at half the price
    base_url: https://api.anthropic.com/v1
    model: claude-haiku-4-5
    api_key_env: ANTHROPIC_API_KEY    # the variable's name, never the key
    params: {max_tokens: 2048}
    terms: {training: unknown}        # read the provider's terms, then: allowed or forbidden
`,
	},
	{
		name:   "ollama",
		about:  "The recipe asks Ollama on this machine. Ollama cuts prompts that are longer than its context (4,096 tokens unless OLLAMA_CONTEXT_LENGTH says more).",
		before: "ollama pull qwen2.5:7b",
		teachers: `  - base_url: http://127.0.0.1:11434/v1
    model: qwen2.5:7b
    identity: ollama-qwen2.5-7b       # what the answers are kept under
    params: {max_tokens: 1024}
    limits: {concurrency: 2}
    terms: {licence: Apache-2.0, training: allowed}   # the model's; change both together
`,
	},
	{
		name:   "vllm",
		about:  "The recipe asks a vLLM server on this machine. To ask one elsewhere, change base_url.",
		before: "vllm serve Qwen/Qwen3-8B --reasoning-parser qwen3",
		teachers: `  - base_url: http://127.0.0.1:8000/v1
    model: Qwen/Qwen3-8B
    identity: vllm-qwen3-8b           # what the answers are kept under; one name for one deployment
    params: {max_completion_tokens: 8192}
    limits: {concurrency: 64}
    terms: {licence: Apache-2.0, training: allowed}   # the model's; change both together
`,
	},
	{
		name:  "recorded",
		about: "The recipe reads answers from answers.jsonl and asks nobody. Put your own questions and answers in its place.",
		teachers: `  - id: last-month
    api: recorded
    path: answers.jsonl               # .jsonl, .json, .csv, .parquet, globs, folders, s3://
    fields: {prompt: question, content: answer, model: model}
    terms: {training: unknown}        # whose answers are they? then: allowed or forbidden
`,
		recorded: []string{"answers.jsonl"},
	},
	{
		name:  "demo",
		about: "The answers of this recipe are simulated and lie in files. `stillhouse demo` runs nine simulated teachers that answer over HTTP, and writes its recipe into the home.",
		head: `# Both teachers are SIMULATED: their answers were written for this example.
`,
		teachers: `  - id: simulated-careful
    api: recorded
    path: careful.jsonl
    fields: {prompt: question, content: answer, model: model}
    terms: {licence: CC0-1.0, training: allowed}
  - id: simulated-hasty
    api: recorded
    path: hasty.jsonl
    fields: {prompt: question, content: answer, model: model}
    terms: {licence: CC0-1.0, training: allowed}
`,
		recorded: []string{"careful.jsonl", "hasty.jsonl"},
	},
}

func starterNames() []string {
	names := make([]string, len(starters))
	for i, s := range starters {
		names[i] = s.name
	}
	return names
}

func starterFor(name string) *starter {
	i := slices.IndexFunc(starters, func(s starter) bool { return s.name == name })
	if i < 0 {
		return nil
	}
	return &starters[i]
}

// starterSystem asks for an end that the math verifier finds.
const starterSystem = `    system: "Solve the problem step by step. End with a line that says Answer: and the number."
`

// recipe is the starter's recipe.
func (s *starter) recipe(name string) string {
	system := starterSystem
	if len(s.recorded) > 0 {
		system = "" // recorded answers are answers to the bare question
	}
	return `# yaml-language-server: $schema=./` + schemaFile + `
` + s.head + `apiVersion: ` + recipe.APIVersion + `
name: ` + yamlText(name) + `
prompts:
  - path: prompts.jsonl
    domain: math
    fields: {prompt: question, gold: answer}
` + system + `teachers:
` + s.teachers + `check:
  - verifier: math                    # compares each answer with the gold one
`
}

// yamlText is a dataset's name as YAML reads it back: some names are numbers
// or words to it.
func yamlText(name string) string {
	words := []string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"}
	if name[0] <= '9' || slices.Contains(words, name) {
		return strconv.Quote(name)
	}
	return name
}

// files are all files of the starter.
func (s *starter) files(name string) ([]newFile, error) {
	schema, err := recipe.Schema()
	if err != nil {
		return nil, err
	}
	prompts, err := jsonLines(starterProblems, func(p problem) any {
		return struct {
			Question string `json:"question"`
			Answer   string `json:"answer"`
		}{p.question, p.gold}
	})
	if err != nil {
		return nil, err
	}
	files := []newFile{{recipeFile, []byte(s.recipe(name))}, {schemaFile, schema}, {"prompts.jsonl", prompts}}
	for _, answers := range s.recorded {
		data, err := jsonLines(starterProblems, func(p problem) any { return p.recorded(answers) })
		if err != nil {
			return nil, err
		}
		files = append(files, newFile{answers, data})
	}
	return files, nil
}

func jsonLines[T any](items []T, row func(T) any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	for _, item := range items {
		if err := enc.Encode(row(item)); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

// next are the commands that come next. Who asks an endpoint looks first
// whether it answers.
func (s *starter) next(path, name string) []string {
	plan, build, show := "stillhouse plan "+quoted(path), "stillhouse build "+quoted(path), "stillhouse show "+name
	if s.before == "" {
		return []string{plan, build, show}
	}
	return []string{s.before, "stillhouse probe " + quoted(path), plan, build}
}

// quoted is a path as a shell takes it.
func quoted(path string) string {
	if !strings.ContainsFunc(path, func(r rune) bool {
		return r > 0x7e || !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/-+:@%", r)
	}) && path != "" {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
