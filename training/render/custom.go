package render

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"

	"github.com/stillhouse-data/stillhouse/training"
)

// TrainerCustom is a trainer that the user's own template is for.
const TrainerCustom = "custom"

// Bounds of a template and of what it makes.
const (
	maxTemplate = 1 << 20
	maxRendered = 4 << 20
	maxRounds   = 1 << 17 // of all loops and nested templates together
	maxWord     = 1 << 20 // bytes that a function takes
)

// customViews are the views that a template may be for: all.
var customViews = []string{
	"messages", "prompt_completion", "preference", "sharegpt", "openai", "axolotl", "ms-swift", "verl", "verl_rl", "prompts_routed", "distillkit",
}

func init() {
	var views []ViewSpec
	for _, name := range customViews {
		views = append(views, ViewSpec{Name: name})
	}
	register(Renderer{
		Trainer: TrainerCustom, Method: MethodSFT, For: "the template that is given",
		Summary: "any trainer, by a template and a command of your own",
		Views:   views,
		Adjust: func(params map[string]any, view *ViewSpec) {
			if form, ok := params["form"].(string); ok {
				view.Form = form
			}
		},
		Render: custom,
	})
}

// A TemplateData is what a custom template sees, as {{.Dataset.Name}}. It holds data
// and no methods.
type TemplateData struct {
	Dataset struct {
		Name    string
		Version int64
	}
	View struct {
		Name      string
		Form      string // parquet or jsonl
		Columns   []string
		Rows      int64 // of the train split
		TestRows  int64
		Files     []string // of the train split, relative to the bundle
		TestFiles []string
	}
	Student struct {
		Model, Revision, Tokenizer, ChatTemplate string
		MaxLength                                int64 // tokens; 0: nothing is to be cut
	}
	Teachers []struct {
		ID, Model, Weights, ScoreURL string
		Rows                         int64
	}
	// Lengths are of the train split in the student's tokens; Counted says
	// whether they are known.
	Lengths struct {
		Counted   bool
		Tokenizer string
		Max, Over int64
	}
	Seed   int64
	Config string // name of the file that the template makes
	Output string // folder that the trainer writes to
	Params map[string]any
}

// customName is what the template's file may be called.
var customName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// custom executes the user's template. It can't read files, run programs or
// see the environment, and ends after a bounded number of rounds.
func custom(in Input) (*training.Rendered, error) {
	if len(filesOf(in.View, "train")) == 0 || in.View.Rows["train"] == 0 {
		return nil, errors.New("the view has no rows in its train split: there is nothing to train on")
	}
	if len(in.Command) == 0 {
		return nil, errors.New("the trainer custom has no command of its own: give one; {config} stands for the file that the template makes")
	}
	name := "config.yaml"
	if v, set := in.Params["config_name"]; set {
		s, ok := v.(string)
		if !ok || !customName.MatchString(s) {
			return nil, fmt.Errorf("params.config_name: %v is no file name of letters, digits, point, - and _", v)
		}
		name = s
	}
	config := path.Join(training.ConfigDir, TrainerCustom, name)
	text, err := execute(in.Template, customData(in, config))
	if err != nil {
		return nil, fmt.Errorf("template: %w", err)
	}
	return &training.Rendered{
		Trainer: training.Trainer{Configs: []string{config}, Command: commandOf(in, config)},
		Files:   []training.File{{Name: config, Data: text}},
		Notes: []string{
			"what the trainer does with rows that are too long, masking and packing is up to the template: nothing of it is checked here",
		},
	}, nil
}

func customData(in Input, config string) *TemplateData {
	m := &TemplateData{Seed: in.Seed, Config: config, Output: training.OutputDir, Params: map[string]any{}}
	m.Dataset.Name, m.Dataset.Version = in.Dataset, in.Version
	m.View.Name, m.View.Columns = in.View.Name, slices.Clone(in.View.Columns)
	m.View.Files, m.View.TestFiles = filesOf(in.View, "train"), filesOf(in.View, "test")
	m.View.Form = strings.TrimPrefix(path.Ext(m.View.Files[0]), ".")
	m.View.Rows, m.View.TestRows = in.View.Rows["train"], in.View.Rows["test"]
	s := in.Student
	m.Student.Model, m.Student.Revision, m.Student.Tokenizer, m.Student.ChatTemplate = s.Model, s.Revision, s.Tokenizer, s.ChatTemplate
	m.Student.MaxLength = int64(s.MaxLength)
	for _, t := range in.Teachers {
		m.Teachers = append(m.Teachers, struct {
			ID, Model, Weights, ScoreURL string
			Rows                         int64
		}{t.ID, t.Model, t.Weights, t.ScoreURL, t.Rows})
	}
	if l := in.Lengths; l != nil {
		m.Lengths.Counted, m.Lengths.Tokenizer, m.Lengths.Max, m.Lengths.Over = true, l.Tokenizer, l.Max, l.Over
	}
	for key, value := range in.Params {
		if key != "config_name" && key != "form" {
			m.Params[key] = value
		}
	}
	return m
}

// execute runs a template over the data. Beside Go's own functions there are
// json, yaml (a value on one line), quote (a word of a POSIX shell) and join.
func execute(text string, data *TemplateData) ([]byte, error) {
	if strings.TrimSpace(text) == "" {
		return nil, errors.New("is empty")
	}
	if len(text) > maxTemplate {
		return nil, fmt.Errorf("has %d bytes, more than %d", len(text), maxTemplate)
	}
	rounds := 0
	t, err := template.New("custom").Option("missingkey=error").Funcs(customFuncs).Funcs(template.FuncMap{roundName: func() (string, error) {
		if rounds++; rounds > maxRounds {
			return "", fmt.Errorf("more than %d rounds", maxRounds)
		}
		return "", nil
	}}).Parse(text)
	if err != nil {
		return nil, err
	}
	round, err := template.New("round").Funcs(template.FuncMap{roundName: func() string { return "" }}).Parse("{{" + roundName + "}}")
	if err != nil {
		return nil, err
	}
	for _, each := range t.Templates() {
		if each.Tree == nil {
			continue
		}
		counted(each.Tree.Root, round.Tree.Root.Nodes[0])
		each.Tree.Root.Nodes = slices.Insert(each.Tree.Root.Nodes, 0, round.Tree.Root.Nodes[0])
	}
	out := &limited{left: maxRendered}
	if err := t.Execute(out, data); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// customFuncs are the functions of a template that make text. Each refuses more
// than maxWord bytes, Go's own included: a loop that doubles a text would take
// all memory long before it has been written.
var customFuncs = template.FuncMap{
	"json": bounded1(func(v any) (string, error) {
		b, err := json.Marshal(v)
		return string(b), err
	}),
	"yaml":  bounded1(yamlValue),
	"quote": bounded1(func(v any) (string, error) { return training.Quote(fmt.Sprint(v)), nil }),
	"join": func(list []string, sep string) (string, error) {
		if size(sep)*max(len(list), 1)+size(list) > maxWord {
			return "", errTooMuch
		}
		return strings.Join(list, sep), nil
	},
	"print":    boundedAll(fmt.Sprint),
	"println":  boundedAll(fmt.Sprintln),
	"html":     boundedAll(template.HTMLEscaper),
	"js":       boundedAll(template.JSEscaper),
	"urlquery": boundedAll(template.URLQueryEscaper),
	"printf": func(format string, args ...any) (string, error) {
		if wideFormat.MatchString(format) || size(args) > maxWord>>8 {
			return "", fmt.Errorf("printf takes a format of at most 256 characters without * and widths of at most three digits, and %d bytes", maxWord>>8)
		}
		return fmt.Sprintf(format, args...), nil
	},
}

// wideFormat is a format that could make much of little.
var wideFormat = regexp.MustCompile(`(?s)[0-9]{4}|[*]|^.{257}`)

var errTooMuch = fmt.Errorf("more than %d bytes for one function", maxWord)

func bounded1(f func(any) (string, error)) func(any) (string, error) {
	return func(v any) (string, error) {
		if size(v) > maxWord {
			return "", errTooMuch
		}
		return f(v)
	}
}

func boundedAll(f func(...any) string) func(...any) (string, error) {
	return func(args ...any) (string, error) {
		if size(args) > maxWord {
			return "", errTooMuch
		}
		return f(args...), nil
	}
}

// size is how many bytes of text a value holds, roughly.
func size(v any) int {
	n := 8
	switch v := v.(type) {
	case string:
		n += len(v)
	case []string:
		for _, e := range v {
			n += len(e)
		}
	case []any:
		for _, e := range v {
			n += size(e)
		}
	case map[string]any:
		for k, e := range v {
			n += len(k) + size(e)
		}
	}
	return n
}

// roundName is called at the start of every round of a loop and of every nested
// template, which Go's templates leave unbounded.
const roundName = "stillhouse_round"

// counted puts a node at the start of every loop's body.
func counted(list *parse.ListNode, round parse.Node) {
	if list == nil {
		return
	}
	branch := func(b *parse.BranchNode) {
		counted(b.List, round)
		counted(b.ElseList, round)
	}
	for _, node := range list.Nodes {
		switch n := node.(type) {
		case *parse.IfNode:
			branch(&n.BranchNode)
		case *parse.WithNode:
			branch(&n.BranchNode)
		case *parse.RangeNode:
			branch(&n.BranchNode)
			n.List.Nodes = slices.Insert(n.List.Nodes, 0, round)
		}
	}
}

// limited is a buffer that takes no more than left bytes.
type limited struct {
	bytes.Buffer
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	if l.left -= len(p); l.left < 0 {
		return 0, fmt.Errorf("makes more than %d bytes", maxRendered)
	}
	return l.Buffer.Write(p)
}
