package render

import (
	"math"
	"strings"
	"testing"
)

func customInput() Input {
	in := viewInput("messages", "jsonl", 100)
	in.Template = "model: {{yaml .Student.Model}}\n"
	in.Command = []string{"my-trainer", "{config}", "$HOME"}
	return in
}

func TestCustom(t *testing.T) {
	in := customInput()
	in.Teachers = []Teacher{{ID: "k3", Model: "kimi", Weights: "moonshotai/Kimi-K3", Rows: 100}}
	in.Lengths = &Lengths{Tokenizer: "kimi", Max: 30000}
	in.Params = map[string]any{"config_name": "run.toml", "form": "jsonl", "lr": 1e-5}
	in.Template = `# {{.Dataset.Name}} {{.Dataset.Version}}, {{.View.Rows}} rows of {{.View.Form}}, {{.View.TestRows}} held back
model = {{json .Student.Model}}
files = [{{range $i, $f := .View.Files}}{{if $i}}, {{end}}{{json $f}}{{end}}]
words = {{quote "it's"}} {{join .View.Files " "}}
lr = {{yaml .Params.lr}}
length = {{.Student.MaxLength}}{{if .Lengths.Counted}} # the longest has {{.Lengths.Max}}{{end}}
{{range .Teachers}}teacher = {{json .Weights}}
{{end}}out = {{json .Output}}
{{template "t" .}}{{define "t"}}seed = {{.Seed}}
{{end}}`
	goldenWhole(t, "custom", mustRender(t, TrainerCustom, "", in))

	spec, err := ViewFor(TrainerCustom, "", "preference", map[string]any{"form": "jsonl"})
	if err != nil || spec.Name != "preference" || spec.Form != "jsonl" {
		t.Errorf("got view %+v, %v", spec, err)
	}
}

func TestCustomRefuses(t *testing.T) {
	text := func(s string) func(*Input) { return func(in *Input) { in.Template = s } }
	refuses(t, TrainerCustom, "", customInput, []refusal{
		{"nothing to train on", func(in *Input) { in.View.Rows["train"] = 0 }},
		{"has no command", func(in *Input) { in.Command = nil }},
		{"is no file name", params("config_name", "../x")},
		{"is no file name", params("config_name", 5)},
		{"is empty", text(" \n")},
		{"unclosed action", text("{{.Seed")},
		{"can't evaluate field Token", text("{{.Token}}")},
		{"map has no entry", text("{{.Params.x}}")},
		{`function "env" not defined`, text(`{{env "HOME"}}`)},
		{`function "readFile" not defined`, text(`{{readFile "/etc/passwd"}}`)},
		{"non-function", text(`{{call .Student.Model}}`)},
		{"more than 131072 rounds", text("{{range 1000000000}}{{end}}")},
		{"more than 131072 rounds", text("{{range $i := 100000}}{{range 100000}}{{if $i}}{{with $i}}{{range 100000}}{{end}}{{end}}{{end}}{{end}}{{end}}")},
		{"more than 4194304 bytes", text(`{{range 100000}}1234567890123456789012345678901234567890123456{{end}}`)},
		{"exceeded maximum template depth", text(`{{define "x"}}{{template "x" .}}{{end}}{{template "x" .}}`)},
		{"more than 131072 rounds", text(`{{define "x"}}{{end}}{{range 1000000}}{{template "x"}}{{template "x"}}{{end}}`)},
		{"for one function", text(`{{$x := "x"}}{{range 60}}{{$x = print $x $x}}{{end}}`)},
		{"for one function", text(`{{$x := "\\"}}{{range 60}}{{$x = json $x}}{{end}}`)},
		{"for one function", text(`{{$x := "'"}}{{range 60}}{{$x = quote $x}}{{end}}`)},
		{"for one function", text(`{{$x := "<"}}{{range 60}}{{$x = html $x $x}}{{end}}`)},
		{"for one function", text(`{{$x := "x"}}{{range 19}}{{$x = print $x $x}}{{end}}{{join .View.Files $x}}`)},
		{"printf takes", text(`{{$x := "x"}}{{range 60}}{{$x = printf "%s%s" $x $x}}{{end}}`)},
		{"printf takes", text(`{{printf "%99999d" 1}}`)},
		{"printf takes", text(`{{printf "%*d" 99999 1}}`)},
		{"has 1048577 bytes", text(strings.Repeat("x", maxTemplate+1))},
		{"is not a number", func(in *Input) {
			in.Template, in.Params = "{{yaml .Params.x}}", map[string]any{"x": math.Inf(1)}
		}},
	})
}
