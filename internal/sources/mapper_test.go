package sources

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/stillhouse-data/stillhouse/internal/recipe"
	"github.com/stillhouse-data/stillhouse/internal/testdata"
)

func rowOf(t testing.TB, text string) Row {
	t.Helper()
	values, err := parseObject([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return Row{Where: "f.jsonl:7", Values: values}
}

func show(s *string) string {
	if s == nil {
		return "none"
	}
	return *s
}

// tasks writes items as one line each.
func tasks(items []Item, err error) string {
	if err != nil {
		return "! " + err.Error()
	}
	var out []string
	for _, it := range items {
		canon, err := it.Prompt.AppendCanonical(nil)
		if err != nil {
			return "! " + err.Error()
		}
		line := fmt.Sprintf("%s/%s %s", it.Domain, it.Effort, canon)
		if it.Gold != nil {
			line += " gold=" + *it.Gold
		}
		if it.Tests != nil {
			line += " tests=" + *it.Tests
		}
		if it.Group != "" {
			line += " group=" + it.Group
		}
		if it.Meta != "" {
			line += " meta=" + it.Meta
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

func asks(text string) string { return `{"messages":[{"content":"` + text + `","role":"user"}]}` }

func TestItems(t *testing.T) {
	fields := func(f recipe.PromptFields) recipe.PromptSource { return recipe.PromptSource{Fields: f} }
	for _, tc := range []struct {
		name   string
		source recipe.PromptSource
		row    string
		want   string
	}{
		{"default prompt", recipe.PromptSource{}, `{"prompt":"p","question":"q"}`, "default/default " + asks("p")},
		{"default question", recipe.PromptSource{}, `{"prompt":null,"question":"q"}`, "default/default " + asks("q")},
		{"default instruction", recipe.PromptSource{}, `{"instruction":"i"}`, "default/default " + asks("i")},
		{"default messages", recipe.PromptSource{}, `{"messages":[{"role":"user","content":"m"}]}`, "default/default " + asks("m")},
		{"prompt that is a conversation", recipe.PromptSource{}, `{"prompt":[{"role":"user","content":"m"}]}`, "default/default " + asks("m")},
		{"no prompt", recipe.PromptSource{}, `{"a":"x","b":1}`, `! f.jsonl:7: has none of the fields prompt, messages, question, instruction; name the prompt's: fields: {prompt: …}; its fields are "a", "b"`},
		{"named field missing", fields(recipe.PromptFields{Prompt: "a.b"}), `{"a":{"c":1}}`, `! f.jsonl:7: has no field a.b; its fields are "a"`},
		{"empty prompt", recipe.PromptSource{}, `{"prompt":" \n"}`, "! f.jsonl:7: the prompt is empty"},
		{"prompt of another kind", recipe.PromptSource{}, `{"prompt":{"a":1}}`, "! f.jsonl:7: field prompt is an object, want a text"},
		{"dotted path and index", fields(recipe.PromptFields{Prompt: "a.1.b"}), `{"a":[0,{"b":"deep"}]}`, "default/default " + asks("deep")},
		{"index out of range", fields(recipe.PromptFields{Prompt: "a.2"}), `{"a":[0]}`, `! f.jsonl:7: has no field a.2; its fields are "a"`},
		{"a column with a dot in its name", fields(recipe.PromptFields{Prompt: "a.b"}), `{"a.b":"x","a":{"b":"y"}}`, "default/default " + asks("x")},
		{"domain and efforts", recipe.PromptSource{Domain: "math", Efforts: []string{"high", "max"}}, `{"prompt":"p"}`, "math/high " + asks("p") + "\nmath/max " + asks("p")},
		{"columns of domain and effort", fields(recipe.PromptFields{Domain: "d", Effort: "e"}), `{"prompt":"p","d":"code","e":3}`, "code/3 " + asks("p")},
		{"a domain with a slash", fields(recipe.PromptFields{Domain: "d"}), `{"prompt":"p","d":"a/b"}`, "! f.jsonl:7: field d holds a slash or a control character; use a short word such as math or high"},
		{"an empty effort", fields(recipe.PromptFields{Effort: "e"}), `{"prompt":"p","e":""}`, "! f.jsonl:7: field e is empty; use a short word such as math or high"},
		{"constant system", recipe.PromptSource{System: "s"}, `{"prompt":"p"}`, `default/default {"messages":[{"content":"p","role":"user"}],"system":"s"}`},
		{"system of the row", fields(recipe.PromptFields{System: "s"}), `{"prompt":"p","s":"t"}`, `default/default {"messages":[{"content":"p","role":"user"}],"system":"t"}`},
		{"system message is the system text", recipe.PromptSource{}, `{"messages":[{"role":"system","content":"s"},{"role":"user","content":"p"}]}`, `default/default {"messages":[{"content":"p","role":"user"}],"system":"s"}`},
		{"two system texts", recipe.PromptSource{System: "s"}, `{"messages":[{"role":"system","content":"t"},{"role":"user","content":"p"}]}`, "! f.jsonl:7: the messages have a system text and the recipe names another; keep one of the two"},
		{"template", recipe.PromptSource{Template: "{{.q}} of {{.n}}"}, `{"q":"half","n":10.50}`, "default/default " + asks("half of 10.50")},
		{"template with a missing field", recipe.PromptSource{Template: "{{.q}}"}, `{"p":"x"}`, `! f.jsonl:7: template: map has no entry for key "q"; its fields are "p"`},
		{"template with a null", recipe.PromptSource{Template: "{{.q}}"}, `{"q":null}`, `! f.jsonl:7: template: map has no entry for key "q"; its fields are "q"`},
		{"template with a null inside", recipe.PromptSource{Template: "{{.q.a}}"}, `{"q":{"a":null}}`, `! f.jsonl:7: template: map has no entry for key "a"; its fields are "q"`},
		{"gold as a number", fields(recipe.PromptFields{Gold: "g"}), `{"prompt":"p","g":1e2}`, "default/default " + asks("p") + " gold=1e2"},
		{"no gold", fields(recipe.PromptFields{Gold: "g"}), `{"prompt":"p"}`, "default/default " + asks("p")},
		{"gold of another kind", fields(recipe.PromptFields{Gold: "g"}), `{"prompt":"p","g":[1]}`, "! f.jsonl:7: field g is a list, want a text"},
		{"gold pattern", recipe.PromptSource{Fields: recipe.PromptFields{Gold: "g"}, GoldPattern: `####\s*(.+)$`}, `{"prompt":"p","g":"so\n#### 1,000\n"}`, "default/default " + asks("p") + " gold=1,000"},
		{"gold pattern finds nothing", recipe.PromptSource{Fields: recipe.PromptFields{Gold: "g"}, GoldPattern: `####\s*(.+)$`}, `{"prompt":"p","g":"so"}`, "! f.jsonl:7: gold_pattern finds nothing in field g"},
		{"gold pattern finds an empty text", recipe.PromptSource{Fields: recipe.PromptFields{Gold: "g"}, GoldPattern: `####(.*)$`}, `{"prompt":"p","g":"####"}`, "! f.jsonl:7: gold_pattern finds an empty answer in field g"},
		{"tests, group, metadata", fields(recipe.PromptFields{Tests: "t", Group: "g", Meta: []string{"m", "n.o"}}), `{"prompt":"p","t":{"b":1,"a":[]},"g":12,"m":"x","n":{"o":1.0}}`, "default/default " + asks("p") + ` tests={"a":[],"b":1} group=12 meta={"m":"x","n.o":1.0}`},
		{"metadata that is an object", fields(recipe.PromptFields{Meta: []string{"m"}}), `{"prompt":"p","m":{"z":1,"a":"\u0001"}}`, "default/default " + asks("p") + ` meta={"a":"\u0001","z":1}`},
		{"tools as a list", fields(recipe.PromptFields{Tools: "t"}), `{"prompt":"p","t":[{"type":"function","function":{"name":"f"}}]}`, `default/default {"messages":[{"content":"p","role":"user"}],"tools":[{"function":{"name":"f"},"type":"function"}]}`},
		{"tools as a text", fields(recipe.PromptFields{Tools: "t"}), `{"prompt":"p","t":"[{\"a\":1}]"}`, `default/default {"messages":[{"content":"p","role":"user"}],"tools":[{"a":1}]}`},
		{"tools that are no JSON", fields(recipe.PromptFields{Tools: "t"}), `{"prompt":"p","t":"[{"}`, "! f.jsonl:7: tools are no JSON: it ends too early"},
		{"tools that are no declarations", fields(recipe.PromptFields{Tools: "t"}), `{"prompt":"p","t":["x"]}`, "! f.jsonl:7: tool 1 is a text, want a declaration"},
		{"messages as a text", fields(recipe.PromptFields{Messages: "m"}), `{"m":"[{\"role\":\"user\",\"content\":\"x\"}]"}`, "default/default " + asks("x")},
		{"parts of text", recipe.PromptSource{}, `{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]}`, "default/default " + asks("ab")},
		{"an image among the parts", recipe.PromptSource{}, `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{}}]}]}`, "! f.jsonl:7: message 1: content has a part that is no text; images and the like are not read from messages"},
		{"a tool call and its result", recipe.PromptSource{}, `{"messages":[{"role":"user","content":"2+2"},{"role":"assistant","content":null,"reasoning":"hm","tool_calls":[{"id":"1","type":"function","function":{"name":"add","arguments":"{\"a\":2}"}}]},{"role":"tool","content":"4","tool_call_id":"1"}]}`,
			`default/default {"messages":[{"content":"2+2","role":"user"},{"content":null,"reasoning_content":"hm","role":"assistant","tool_calls":[{"function":{"arguments":"{\"a\":2}","name":"add"},"id":"1","type":"function"}]},{"content":"4","role":"tool","tool_call_id":"1"}]}`},
		{"an unknown role", recipe.PromptSource{}, `{"messages":[{"role":"human","content":"x"}]}`, "! f.jsonl:7: message 1: role is none of system, user, assistant, tool"},
		{"a late system message", recipe.PromptSource{}, `{"messages":[{"role":"user","content":"x"},{"role":"system","content":"s"}]}`, "! f.jsonl:7: message 2: a system message must be the first"},
		{"a message without anything", recipe.PromptSource{}, `{"messages":[{"role":"user"}]}`, "! f.jsonl:7: message 1: has neither content nor tool calls"},
		{"an answer at the end", recipe.PromptSource{}, `{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"y"}]}`, "! f.jsonl:7: the messages end with the assistant's turn; a prompt ends before it"},
		{"no messages", recipe.PromptSource{}, `{"messages":[]}`, "! f.jsonl:7: the prompt is empty"},
		{"messages of another kind", recipe.PromptSource{}, `{"messages":{"role":"user"}}`, "! f.jsonl:7: messages are an object, want a list of {role, content}"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m, err := NewMapper(&tc.source)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, tasks(m.Items(rowOf(t, tc.row)))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTemplateIsBounded(t *testing.T) {
	m, err := NewMapper(&recipe.PromptSource{Template: `{{range $i := 1000000}}{{$.q}}{{end}}`})
	if err != nil {
		t.Fatal(err)
	}
	_, err = m.Items(rowOf(t, `{"q":"`+strings.Repeat("x", 1000)+`"}`))
	if err == nil || !strings.Contains(err.Error(), "the text is larger than 16777216 bytes") {
		t.Errorf("error %v, want one of size", err)
	}
}

func TestNewMapperErrors(t *testing.T) {
	for _, tc := range []struct {
		src  recipe.PromptSource
		want string
	}{
		{recipe.PromptSource{Path: "p", Template: "{{"}, "map prompts of p: template:"},
		{recipe.PromptSource{Path: "p", GoldPattern: "("}, "map prompts of p: gold_pattern:"},
		{recipe.PromptSource{Path: "p", GoldPattern: "x"}, "map prompts of p: gold_pattern has no group; put parentheses around the answer"},
	} {
		if _, err := NewMapper(&tc.src); err == nil || !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("error %v, want %s", err, tc.want)
		}
	}
}

func TestItemsOfFiles(t *testing.T) {
	files := []File{
		fileOf("a.jsonl", []byte("{\"prompt\":\"1\"}\n{\"prompt\":\"\"}\n{\"prompt\":\"2\"}\n")),
		fileOf("b.jsonl", []byte("{\"prompt\":\"3\"}\n{\"prompt\":\"4\"}\n")),
	}
	read := func(files []File, src recipe.PromptSource) (out []string) {
		for item, err := range Items(context.Background(), files, &src, Options{}) {
			if err != nil {
				out = append(out, "! "+err.Error())
				continue
			}
			out = append(out, item.Where+" "+item.Effort+" "+item.Prompt.LastUser())
		}
		return out
	}
	bad := "! a.jsonl:2: the prompt is empty"
	if diff := cmp.Diff([]string{"a.jsonl:1 default 1", bad, "a.jsonl:3 default 2", "b.jsonl:1 default 3", "b.jsonl:2 default 4"}, read(files, recipe.PromptSource{})); diff != "" {
		t.Error(diff)
	}
	want := []string{"a.jsonl:1 x 1", "a.jsonl:1 y 1", bad, "a.jsonl:3 x 2", "a.jsonl:3 y 2", "b.jsonl:1 x 3", "b.jsonl:1 y 3"}
	if diff := cmp.Diff(want, read(files, recipe.PromptSource{Limit: 3, Efforts: []string{"x", "y"}})); diff != "" {
		t.Error(diff)
	}
	broken := fileOf("c.jsonl", nil)
	broken.Open = func(context.Context) (io.ReadCloser, error) { return nil, os.ErrPermission }
	if diff := cmp.Diff([]string{"! read c.jsonl: permission denied"}, read([]File{broken, files[1]}, recipe.PromptSource{})); diff != "" {
		t.Error(diff)
	}
}

func TestAnswers(t *testing.T) {
	for _, tc := range []struct {
		name   string
		fields recipe.AnswerFields
		row    string
		want   string
	}{
		{"prompt and content", recipe.AnswerFields{Prompt: "q", Content: "m.s"}, `{"q":"p","m":{"s":"a"},"other":"x"}`,
			asks("p") + ` {"content":"a","finish_reason":"stop"}`},
		{"everything", recipe.AnswerFields{Content: "c", Reasoning: "r", Finish: "f", Model: "m", CompletionTokens: "n", System: "s"}, `{"prompt":"p","c":"a","r":"hm","f":"length","m":"k3","n":12,"s":"sys"}`,
			`{"messages":[{"content":"p","role":"user"}],"system":"sys"} {"completion_tokens":12,"content":"a","finish_reason":"length","model":"k3","reasoning_content":"hm"}`},
		{"samples", recipe.AnswerFields{Content: "c"}, `{"prompt":"p","c":["a","b"]}`,
			asks("p") + ` {"content":"a","finish_reason":"stop"} {"content":"b","finish_reason":"stop"}`},
		{"the last turn", recipe.AnswerFields{Messages: "messages"}, `{"messages":[{"role":"user","content":"p"},{"role":"assistant","content":"a","reasoning_content":"hm","tool_calls":[{"id":"1","function":{"name":"f","arguments":"{}"}}]}]}`,
			asks("p") + ` {"content":"a","finish_reason":"stop","reasoning_content":"hm","tool_calls":[{"function":{"arguments":"{}","name":"f"},"id":"1","type":"function"}]}`},
		{"an empty answer is an answer", recipe.AnswerFields{Content: "c"}, `{"prompt":"p","c":""}`, asks("p") + ` {"content":"","finish_reason":"stop"}`},
		{"no answer", recipe.AnswerFields{Content: "c"}, `{"prompt":"p","c":null}`, `! f.jsonl:7: has no field c; its fields are "c", "prompt"`},
		{"an answer of another kind", recipe.AnswerFields{Content: "c"}, `{"prompt":"p","c":[1]}`, "! f.jsonl:7: field c is a number, want a text"},
		{"samples of different number", recipe.AnswerFields{Content: "c", Reasoning: "r"}, `{"prompt":"p","c":["a","b"],"r":"x"}`, "! f.jsonl:7: fields c and r hold 2 and 1 samples"},
		{"no last turn", recipe.AnswerFields{Messages: "messages"}, `{"messages":[{"role":"user","content":"p"}]}`, "! f.jsonl:7: the messages end without the assistant's turn; the row holds no answer"},
		{"an answer to nothing", recipe.AnswerFields{Messages: "messages"}, `{"messages":[{"role":"assistant","content":"a"}]}`, "! f.jsonl:7: the prompt is empty"},
		{"too many tokens", recipe.AnswerFields{Content: "c", CompletionTokens: "n"}, `{"prompt":"p","c":"a","n":9223372036854775807}`, "! f.jsonl:7: field n is no number of tokens"},
		{"odd tokens", recipe.AnswerFields{Content: "c", CompletionTokens: "n"}, `{"prompt":"p","c":"a","n":-1}`, "! f.jsonl:7: field n is no number of tokens"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m, err := NewAnswerMapper(&recipe.Teacher{ID: "t", Fields: tc.fields})
			if err != nil {
				t.Fatal(err)
			}
			recordings, err := m.Answers(rowOf(t, tc.row))
			got := ""
			if err != nil {
				got = "! " + err.Error()
			} else {
				canon, _ := recordings[0].Prompt.AppendCanonical(nil)
				got = string(canon)
				for _, a := range recordings[0].Answers {
					got += " " + string(a.Raw)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	if _, err := NewAnswerMapper(&recipe.Teacher{ID: "t"}); err == nil {
		t.Error("a mapping without content is accepted")
	}
}

func TestGSM8K(t *testing.T) {
	path := testdata.Path(t, "data/gsm8k/test.jsonl")
	src := recipe.PromptSource{Path: path, Domain: "math", Fields: recipe.PromptFields{Prompt: "question", Gold: "answer"}, GoldPattern: `####\s*(.+)$`}
	number := regexp.MustCompile(`^-?[0-9][0-9,]*(\.[0-9]+)?$`)
	ids := map[string]string{}
	for item, err := range itemsOf(t, filepath.Dir(path), "test.jsonl", &src) {
		if err != nil {
			t.Fatal(err)
		}
		if item.Gold == nil || !number.MatchString(*item.Gold) {
			t.Errorf("%s: gold %s is no number", item.Where, show(item.Gold))
		}
		id, err := item.Prompt.ID()
		if err != nil {
			t.Fatal(err)
		}
		ids[id] = show(item.Gold)
	}
	if len(ids) != 1319 {
		t.Fatalf("%d prompts, want 1319", len(ids))
	}

	// The other file holds the same problems, spelt the same, with four answers.
	src.Fields.Gold, src.GoldPattern = "ground_truth", `A:\s*(.+)$`
	n := 0
	for item, err := range itemsOf(t, filepath.Dir(path), "example_model_solutions.jsonl", &src) {
		if err != nil {
			t.Fatal(err)
		}
		n++
		if id, _ := item.Prompt.ID(); ids[id] != show(item.Gold) {
			t.Errorf("%s: gold %s, the other file has %s", item.Where, show(item.Gold), ids[id])
		}
	}
	if n != 1319 {
		t.Fatalf("%d prompts, want 1319", n)
	}
	for _, teacher := range []string{"175b_verification", "6b_verification", "175b_finetuning", "6b_finetuning"} {
		m, err := NewAnswerMapper(&recipe.Teacher{ID: teacher, Fields: recipe.AnswerFields{Prompt: "question", Content: teacher + ".solution"}})
		if err != nil {
			t.Fatal(err)
		}
		files, err := Find(filepath.Dir(path), "example_model_solutions.jsonl")
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for row, err := range Rows(context.Background(), files[0], Options{}) {
			if err != nil {
				t.Fatal(err)
			}
			recordings, err := m.Answers(row)
			if err != nil || len(recordings) != 1 {
				t.Fatal(len(recordings), err)
			}
			answers := recordings[0].Answers
			id, _ := recordings[0].Prompt.ID()
			if _, known := ids[id]; !known || len(answers) != 1 || *answers[0].Content == "" {
				t.Errorf("%s: prompt %s is not among the problems, or %d answers", row.Where, id, len(answers))
			}
			n++
		}
		if n != 1319 {
			t.Errorf("%s: %d answers, want 1319", teacher, n)
		}
	}
}

func TestOtherRealFiles(t *testing.T) {
	for _, tc := range []struct {
		file string
		src  recipe.PromptSource
		want int
	}{
		{"data/humaneval/HumanEval.jsonl.gz", recipe.PromptSource{Fields: recipe.PromptFields{Prompt: "prompt", Tests: "test", Group: "task_id"}}, 164},
		{"data/alpacaeval/vicuna-13b.jsonl", recipe.PromptSource{}, 805},
		{"data/alpacaeval/leaderboard.csv", recipe.PromptSource{Template: "{{.win_rate}}"}, 0},
	} {
		path := testdata.Path(t, tc.file)
		n := 0
		for item, err := range itemsOf(t, filepath.Dir(path), filepath.Base(path), &tc.src) {
			var fault *RowError
			if errors.As(err, &fault) {
				t.Errorf("%s: %v", tc.file, err)
			} else if err != nil {
				t.Fatal(err)
			}
			if item.Prompt.LastUser() == "" {
				t.Errorf("%s: %s has no prompt", tc.file, item.Where)
			}
			n++
		}
		if n != tc.want && tc.want > 0 || n == 0 {
			t.Errorf("%s: %d prompts, want %d", tc.file, n, tc.want)
		}
	}
}

func FuzzItems(f *testing.F) {
	f.Add(`{"prompt":"p","m":{"a":1}}`, "m.a", "{{.prompt}}")
	f.Add(`{"messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"x"}]}]}`, "messages.0.role", "")
	f.Add(`{"messages":"[{\"role\":\"user\",\"content\":\"x\",\"tool_calls\":[{}]}]","t":[{}]}`, "t", "")
	f.Fuzz(func(t *testing.T, row, field, text string) {
		if strings.Contains(text, "range") || strings.Contains(text, "template") || strings.Contains(text, "printf") {
			return // trusted, and slow on purpose
		}
		values, err := parseObject([]byte(row))
		if err != nil {
			return
		}
		src := recipe.PromptSource{Template: text, Fields: recipe.PromptFields{
			System: field, Tools: field, Gold: field, Tests: field, Group: field, Meta: []string{field, "m"},
		}}
		m, err := NewMapper(&src)
		if err != nil {
			return
		}
		items, err := m.Items(Row{Where: "x:1", Values: values})
		if err != nil {
			var fault *RowError
			if !errors.As(err, &fault) || !utf8.ValidString(fault.Reason) && utf8.ValidString(text+field) {
				t.Fatalf("%q is no row error in UTF-8", err)
			}
			return
		}
		for _, item := range items {
			if _, err := item.Prompt.ID(); err != nil && item.Prompt.Tools == "" {
				t.Fatalf("no id: %v", err)
			}
			if item.Meta != "" {
				if _, err := parseJSON(item.Meta); err != nil {
					t.Fatalf("metadata %q: %v", item.Meta, err)
				}
			}
		}
		am, err := NewAnswerMapper(&recipe.Teacher{Fields: recipe.AnswerFields{Messages: "messages", Content: field}})
		if err == nil {
			recordings, _ := am.Answers(Row{Where: "x:1", Values: values})
			for _, r := range recordings {
				for _, a := range r.Answers {
					if _, err := parseJSON(string(a.Raw)); err != nil {
						t.Fatalf("raw %q: %v", a.Raw, err)
					}
				}
			}
		}
	})
}

func BenchmarkItems10000(b *testing.B) {
	path := filepath.Join(b.TempDir(), "p.jsonl")
	var text strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&text, `{"id": %d, "question": "Janet\u2019s ducks lay %d eggs per day. She eats three for breakfast every morning and bakes muffins for her friends every day with four. She sells the remainder at the farmers' market daily for $2 per fresh duck egg. How much does she make every day?", "answer": "Janet sells %d - 3 - 4 duck eggs a day.\nShe makes twice that every day at the farmer\u2019s market.\n#### %d"}`+"\n", i, i, i, i)
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		b.Fatal(err)
	}
	src := recipe.PromptSource{Path: path, Fields: recipe.PromptFields{Prompt: "question", Gold: "answer"}, GoldPattern: `####\s*(.+)$`}
	b.SetBytes(int64(text.Len()))
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		for _, err := range itemsOf(b, "", path, &src) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n != 10_000 {
			b.Fatalf("%d items", n)
		}
	}
	b.ReportMetric(10_000*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}
