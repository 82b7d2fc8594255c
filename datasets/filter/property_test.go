package filter

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// fragments are what answers are made of: text that a filter looks for, and
// text that only looks like it.
var fragments = []string{
	"I'm sorry, but I can't help with that. ", "I am ChatGPT. ", "As of my last update, ", "<think>", "</think>", "`", "```\n", "<|im_end|>", "</s>", "jane@gmx.net ", "93.184.216.34 ", "4539 5787 6362 1486 ",
	"So we have to look at it again. ", "\n\n", "\n", "高级牛肉", "3333333333333333", "word ", "x = y + z; ", "A fox and a dog. ", "\xff", "\"", "$", "\\(", "<", "::", "+49 30 6293 8471", "- entry\n", "\u200b",
}

func text(t *rapid.T, label string) string {
	parts := rapid.SliceOfN(rapid.OneOf(rapid.SampledFrom(fragments), rapid.StringN(0, 8, 16)), 0, 40).Draw(t, label)
	return strings.Repeat(strings.Join(parts, ""), rapid.IntRange(1, 12).Draw(t, label+" times"))
}

func candidate(t *rapid.T) *Input {
	content, reasoning := text(t, "content"), text(t, "reasoning")
	m := chat.Message{Role: chat.RoleAssistant, Content: &content}
	if rapid.Bool().Draw(t, "thinks") {
		m.ReasoningContent = &reasoning
	}
	if rapid.Bool().Draw(t, "calls") {
		arguments, _ := json.Marshal(map[string]string{"x": text(t, "argument")})
		m.ToolCalls = []chat.ToolCall{{Name: "f", Arguments: string(arguments)}}
	}
	in := answerTo(rapid.SampledFrom([]string{"chat", "math", "code"}).Draw(t, "domain"), text(t, "prompt"), "")
	in.Candidate.Messages = []chat.Message{m}
	return in
}

// all are the filters with their defaults, and with what they leave off.
func all(t testing.TB) []Filter {
	stats := map[string]any{"max_ratio": 4, "max_tokens": 10000}
	var out []Filter
	for _, name := range Names() {
		if name != "length" {
			out = append(out, filterOf(t, name, nil))
		}
	}
	return append(out, filterOf(t, "length", stats), filterOf(t, "repetition", map[string]any{"gopher": true}), filterOf(t, "identity", map[string]any{"assistant": true}),
		filterOf(t, "pii", map[string]any{"action": "mask"}), filterOf(t, "think", map[string]any{"required": true}), filterOf(t, "language", map[string]any{"languages": []any{"en"}, "reasoning": true}))
}

// TestFiltersDoNotDependOnEachOther holds that filters may run in any order:
// none changes the candidate, and the reasons are the same.
func TestFiltersDoNotDependOnEachOther(t *testing.T) {
	filters := all(t)
	rapid.Check(t, func(t *rapid.T) {
		in := candidate(t)
		before, _ := json.Marshal(in.Candidate)
		reasons := func(order []Filter) []string {
			var out []string
			for _, f := range order {
				if reason := f.Reject(in); reason != "" {
					out = append(out, f.Name()+" "+reason)
				}
			}
			slices.Sort(out)
			return out
		}
		want := reasons(filters)
		if diff := cmp.Diff(want, reasons(rapid.Permutation(filters).Draw(t, "order"))); diff != "" {
			t.Fatal(diff)
		}
		if after, _ := json.Marshal(in.Candidate); string(after) != string(before) {
			t.Fatalf("a filter changed the candidate: %s", after)
		}
		for _, reason := range want {
			if len(reason) > 64 {
				t.Fatalf("a long reason: %q", reason)
			}
		}
	})
}

// TestMaskingIsComplete holds that nothing is found in what was masked, that
// masking again changes nothing, and that valid JSON stays valid.
func TestMaskingIsComplete(t *testing.T) {
	mask, find := filterOf(t, "pii", map[string]any{"action": "mask"}).(Changer), filterOf(t, "pii", nil)
	rapid.Check(t, func(t *rapid.T) {
		in := candidate(t)
		found := find.Reject(in) != ""
		mask.Change(in)
		if masked := slices.Contains(in.Candidate.Flags, FlagPIIMasked); masked != found {
			t.Fatalf("masked %v, found %v", masked, found)
		}
		if reason := find.Reject(in); reason != "" {
			t.Fatalf("%s is left", reason)
		}
		for _, call := range in.message().ToolCalls {
			if !json.Valid([]byte(call.Arguments)) {
				t.Fatalf("no JSON any more: %s", call.Arguments)
			}
		}
		once, _ := json.Marshal(in.Candidate)
		mask.Change(in)
		if twice, _ := json.Marshal(in.Candidate); string(once) != string(twice) {
			t.Fatalf("masked twice: %s, once: %s", twice, once)
		}
	})
}

// TestStatsDoNotDependOnOrder holds that measures are the same however answers
// are spread over parts.
func TestStatsDoNotDependOnOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lengths := rapid.SliceOfN(rapid.Int64Range(0, 1<<21), 1, 60).Draw(t, "lengths")
		measure := func(lengths []int64) *Stats {
			var s Stats
			for _, n := range lengths {
				in := answerTo("chat", "q", "a")
				in.Candidate.CompletionTokens = &n
				s.Measure(in)
			}
			return &s
		}
		cut := rapid.IntRange(0, len(lengths)).Draw(t, "cut")
		shuffled := rapid.Permutation(lengths).Draw(t, "order")
		sum := measure(shuffled[:cut])
		sum.Add(measure(shuffled[cut:]))
		whole, _ := json.Marshal(measure(lengths))
		if parts, _ := json.Marshal(sum); string(parts) != string(whole) {
			t.Fatalf("%s, want %s", parts, whole)
		}
		slices.Sort(lengths)
		exact := lengths[(len(lengths)-1)/2]
		got, of := sum.Median("chat", "")
		if of != int64(len(lengths)) || got > exact || float64(got) < 0.998*float64(exact) {
			t.Fatalf("median %d of %d, want %d of %d", got, of, exact, len(lengths))
		}
	})
}

func TestNoFilterFailsOnNothing(t *testing.T) {
	for _, in := range []*Input{
		{Candidate: &datasets.Candidate{}},
		{Candidate: &datasets.Candidate{Messages: []chat.Message{{Role: chat.RoleAssistant}}}},
		{Candidate: &datasets.Candidate{Messages: []chat.Message{{Role: chat.RoleUser, Content: chat.Text("q")}}}},
	} {
		for _, f := range all(t) {
			f.Reject(in)
			if c, ok := f.(Changer); ok {
				c.Change(in)
			}
			if f.Name() == "" || f.Version() == "" {
				t.Errorf("%T has no name or no version", f)
			}
		}
	}
}

// FuzzFilters feeds every filter with hostile text, in every place that it
// looks at.
func FuzzFilters(f *testing.F) {
	for _, s := range fragments {
		f.Add(s, s, s)
		f.Add(strings.Repeat(s, 40), "q", "")
	}
	filters := all(f)
	f.Fuzz(func(t *testing.T, content, reasoning, prompt string) {
		if len(content)+len(reasoning)+len(prompt) > 1<<16 {
			return
		}
		in := answerTo("chat", prompt, content)
		in.Candidate.Messages[0].ReasoningContent = &reasoning
		in.Candidate.Messages[0].ToolCalls = []chat.ToolCall{{Name: "f", Arguments: content}}
		for _, f := range filters {
			first := f.Reject(in)
			if again := f.Reject(in); again != first {
				t.Errorf("%s: %q, then %q", f.Name(), first, again)
			}
			if len(first) > 64 || strings.ContainsFunc(first, func(r rune) bool { return r <= ' ' || r > '~' }) {
				t.Errorf("%s: a reason that cannot be counted: %q", f.Name(), first)
			}
		}
		for _, f := range filters {
			if c, ok := f.(Changer); ok {
				c.Change(in)
			}
		}
		if reason := filterOf(t, "pii", nil).Reject(in); reason != "" {
			t.Errorf("%s is left after masking", reason)
		}
	})
}
