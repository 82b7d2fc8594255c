package filter

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/chat"
)

func withReasoning(answer, reasoning string) *Input {
	in := answerTo("chat", "q", answer)
	in.Candidate.Messages[0].ReasoningContent = &reasoning
	return in
}

func TestThink(t *testing.T) {
	f := filterOf(t, "think", nil)
	for _, tc := range []struct {
		name, answer, reasoning, want string
	}{
		{"no thoughts", "4", "", ""},
		{"a field", "4", "2 and 2", ""},
		{"inline", "<think>2 and 2</think>4", "", ""},
		{"inline, other tags", " ◁think▷2 and 2◁/think▷\n4", "", ""},
		{"inline and empty", "<think>\n\n</think>\n\n4", "", ""},
		{"both", "<think>2 and 2</think>4", "2 and 2", ""},
		{"never ended", "<think>2 and 2 is 4", "", ReasonThinkOpen},
		{"never begun", "2 and 2</think>4", "", ReasonThinkTags},
		{"two blocks", "<think>2</think>4<think>5</think>", "", ReasonThinkTags},
		{"nested", "<think>2<think>3</think></think>4", "", ReasonThinkTags},
		{"crossed", "</think>2<think>4", "", ReasonThinkTags},
		{"two kinds", "<think>2</thinking>4", "", ReasonThinkTags},
		{"after some of the answer", "The answer: <think>2</think>4", "", ReasonThinkTags},
		{"no answer after it", "<think>2 and 2</think> \n", "", ReasonThinkNoAnswer},
		{"no answer beside the field", " ", "2 and 2", ReasonThinkNoAnswer},
		{"talk about tags", "Close it with `</think>`.", "", ""},
		{"tags in a block of code", "Write:\n```\n<think>\n```\nand so on.", "", ""},
		{"nothing at all", "", "", ""}, // for finish and empty to say
	} {
		if got := f.Reject(withReasoning(tc.answer, tc.reasoning)); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
	required := filterOf(t, "think", map[string]any{"required": true})
	for answer, want := range map[string]string{"4": ReasonThinkNone, "<think></think>4": ReasonThinkNone, "<think>2</think>4": ""} {
		if got := required.Reject(withReasoning(answer, "")); got != want {
			t.Errorf("required, %q: %q, want %q", answer, got, want)
		}
	}
	calls := withReasoning("", "2 and 2")
	calls.Candidate.Messages[0].ToolCalls = []chat.ToolCall{{Name: "add", Arguments: "{}"}}
	if got := f.Reject(calls); got != "" {
		t.Errorf("thoughts and a tool call: %q", got)
	}
}

func TestThinkTwiceIsFlagged(t *testing.T) {
	f := filterOf(t, "think", nil).(Changer)
	for _, tc := range []struct {
		answer, reasoning string
		want              []string
	}{
		{"<think>2</think>4", "2", []string{"a", FlagThinkTwice, "u"}},
		{"4", "2", []string{"a", "u"}},
		{"<think>2</think>4", "", []string{"a", "u"}},
	} {
		in := withReasoning(tc.answer, tc.reasoning)
		in.Candidate.Flags = []string{"a", "u"}
		f.Change(in)
		f.Change(in)
		if diff := cmp.Diff(tc.want, in.Candidate.Flags); diff != "" {
			t.Errorf("%q: %s", tc.answer, diff)
		}
	}
}

func TestControlTokens(t *testing.T) {
	f := filterOf(t, "control_tokens", nil)
	for _, bad := range []string{
		"4<|im_end|>", "<|endoftext|>", "<|start_header_id|>user", "a <|channel|>final", "<|eot_id|>", "<｜end▁of▁sentence｜>", "[INST] hi [/INST]", "<<SYS>>", "<start_of_turn>model",
		"<tool_call>{}</tool_call>", "[TOOL_CALLS]", "[gMASK]<sop>", "4</s>", "<s>4", "<pad>", "<unused12>", "<extra_id_0>", "a<0x0A>b", "`<|im_start|>`", "<|tool_calls_section_begin|>", "<|fim_prefix|>",
	} {
		if got := f.Reject(answerTo("chat", "q", bad)); got != ReasonControlTokens {
			t.Errorf("%q: %q", bad, got)
		}
		if got := f.Reject(withReasoning("4", bad)); got != ReasonControlTokens {
			t.Errorf("%q in the reasoning: %q", bad, got)
		}
		call := answerTo("chat", "q", "")
		call.Candidate.Messages[0].ToolCalls = []chat.ToolCall{{Name: "f", Arguments: bad}}
		if got := f.Reject(call); got != ReasonControlTokens {
			t.Errorf("%q in a call: %q", bad, got)
		}
	}
	for _, good := range []string{
		"", "4", "f <| x |> g", "a <|> b", "if a<|b| then", "x |> f <| y", "<s>old</s> new", "a </b>", "[install]", "[1] and [2]", "cat <<EOF", "<unusedvar>", "<reserved_>", "<0x0a>", "vector<int>", "◁ and ▷", "|x| < |y|", "<|" + strings.Repeat("a", 100) + "|>", "<think>2</think>4",
	} {
		if got := f.Reject(answerTo("chat", "q", good)); got != "" {
			t.Errorf("%q: %q", good, got)
		}
	}
	allowed := filterOf(t, "control_tokens", map[string]any{"allow": []any{"<tool_call>", "</tool_call>"}})
	for text, want := range map[string]string{"<tool_call>{}</tool_call>": "", "<tool_call><|im_end|>": ReasonControlTokens} {
		if got := allowed.Reject(answerTo("chat", "q", text)); got != want {
			t.Errorf("allowed %q: %q, want %q", text, got, want)
		}
	}
}

func TestEmpty(t *testing.T) {
	f := filterOf(t, "empty", nil)
	for text, want := range map[string]string{
		"4": "", "": ReasonEmpty, " \n\t": ReasonEmpty, "\u200b\ufeff": ReasonEmpty, "<think>hm</think>": ReasonEmpty, "<think>hm</think>4": "", ".": "", "\u2800": ReasonEmpty,
	} {
		if got := f.Reject(answerTo("chat", "q", text)); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := f.Reject(&Input{Candidate: &datasets.Candidate{}}); got != ReasonEmpty {
		t.Errorf("no answer: %q", got)
	}
}

func TestRepetition(t *testing.T) {
	f := filterOf(t, "repetition", nil)
	sentence := "So we have to look at it again. "
	paragraph := "Wait, that is not what the text says.\n\n"
	var numbered strings.Builder
	for i := range 50 {
		numbered.WriteString("Answer is:\n")
		numbered.WriteString(strings.Repeat("x", i%7+1) + "\n")
	}
	for _, tc := range []struct{ name, domain, text, want string }{
		{"prose", "chat", "A fox. A dog. A fox and a dog.", ""},
		{"digits to the end", "math", "A: 0." + strings.Repeat("18", 40), ReasonLoop},
		{"a decimal fraction", "math", "A: " + strings.Repeat("3", 40), ""},
		{"a word to the end", "chat", "I said " + strings.Repeat("no ", 40), ReasonLoop},
		{"Chinese to the end", "chat", "Kobe beef is " + strings.Repeat("高级牛肉", 40), ReasonLoop},
		{"a loop that it comes out of", "chat", "Well " + strings.Repeat("ha", 200) + ". That was fun.", ReasonLoop},
		{"a short laugh", "chat", "Well " + strings.Repeat("ha", 20) + ". That was fun.", ""},
		{"a rule", "chat", strings.Repeat("-", 300) + "\ntext", ""},
		{"a rule at the end", "chat", "text\n" + strings.Repeat("=", 300), ""},
		{"a form", "chat", "Name: " + strings.Repeat("_", 200), ""},
		{"a table's rule", "chat", "|" + strings.Repeat("---|", 100) + "\n", ""},
		{"dots without an end", "chat", strings.Repeat(". ", 2000), ReasonLoop},
		{"four in a row", "chat", strings.Repeat(sentence, 4), ReasonSentences},
		{"three in a row", "chat", strings.Repeat(sentence, 3), ""},
		{"four in a row of mathematics", "math", strings.Repeat(sentence, 4), ""},
		{"eight in a row of mathematics", "math", strings.Repeat(sentence, 8), ReasonSentences},
		{"an equation four times", "chat", strings.Repeat("Thus x = y + z holds. ", 4), ""},
		{"short cries", "chat", strings.Repeat("No! Yes! ", 6), ""},
		{"forty altogether", "chat", strings.Repeat(sentence+"Or something else, that may be. Let us see what there is. ", 40), ReasonSentences},
		{"ten paragraphs", "chat", strings.Repeat(paragraph+"Let me see what comes next here, number by number.\n\n", 10), ReasonParagraphs},
		{"nine paragraphs", "chat", strings.Repeat(paragraph+"Let me see what comes next here, number by number.\n\n", 9), ""},
		{"an output with values between", "chat", numbered.String(), ReasonSentences},
		{"the same with a few", "chat", numbered.String()[:200], ""},
		{"lines of an output", "chat", strings.Repeat("Answer is:\n0\n", 10), ""},
		{"a list", "chat", strings.Repeat("- the same old entry\n", 11), ""},
		{"a long list", "chat", strings.Repeat("- the same old entry\n", 12), ReasonSentences},
	} {
		if got := f.Reject(answerTo(tc.domain, "q", tc.text)); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
		if got := f.Reject(&Input{Candidate: withReasoning("4", tc.text).Candidate}); tc.domain == "chat" && got != tc.want {
			t.Errorf("%s in the reasoning: %q, want %q", tc.name, got, tc.want)
		}
	}
	off := filterOf(t, "repetition", map[string]any{"loop": false, "consecutive": 9})
	if got := off.Reject(answerTo("math", "q", "A: 0."+strings.Repeat("18", 40))); got != "" {
		t.Errorf("loops are off: %q", got)
	}
	call := answerTo("chat", "q", "")
	call.Candidate.Messages[0].ToolCalls = []chat.ToolCall{{Name: "f", Arguments: `{"x": "` + strings.Repeat("ab", 200) + `"}`}}
	if got := f.Reject(call); got != ReasonLoop {
		t.Errorf("a loop in a call: %q", got)
	}
	gopher := filterOf(t, "repetition", map[string]any{"gopher": true})
	for text, want := range map[string]string{
		"The cat sat on the mat. The cat sat on the mat again, and the cat sat on the mat.":  ReasonGopher,
		"Each of these words stands here once, more or less, so nothing is repeated at all.": "",
	} {
		if got := gopher.Reject(answerTo("chat", "q", text)); got != want {
			t.Errorf("gopher: %q, want %q: %s", got, want, text)
		}
	}
}

func TestLength(t *testing.T) {
	tokens := func(n int64) *Input {
		in := answerTo("chat", "q", "some text")
		in.Candidate.CompletionTokens = &n
		return in
	}
	f := filterOf(t, "length", map[string]any{"min_tokens": 5, "max_tokens": 10})
	for n, want := range map[int64]string{4: ReasonShort, 5: "", 10: "", 11: ReasonLong} {
		if got := f.Reject(tokens(n)); got != want {
			t.Errorf("%d tokens: %q, want %q", n, got, want)
		}
	}
	guessed := answerTo("chat", "q", strings.Repeat("word ", 10))
	if got := f.Reject(guessed); got != ReasonLong {
		t.Errorf("50 bytes without a count: %q", got)
	}
	guessed.CountTokens = func(text string) int64 { return int64(len(strings.Fields(text))) }
	if got := f.Reject(guessed); got != "" {
		t.Errorf("ten words: %q", got)
	}
	ratio := filterOf(t, "length", map[string]any{"min_ratio": 0.1, "max_ratio": 4})
	if !NeedsStats(ratio) || NeedsStats(f) {
		t.Error("a ratio needs the measures of all answers, and limits do not")
	}
	var stats Stats
	for n := range int64(9) {
		in := tokens(100 * (n + 1)) // the median is 500
		in.Candidate.Effort = "high"
		stats.Measure(in)
	}
	cut, length := tokens(1), "length"
	cut.Candidate.FinishReason = &length
	stats.Measure(cut)
	if median, of := stats.Median("chat", "high"); median != 500 || of != 9 {
		t.Errorf("median %d of %d, want 500 of 9", median, of)
	}
	for n, want := range map[int64]string{49: ReasonShort, 50: "", 2000: "", 2001: ReasonLong} {
		in := tokens(n)
		in.Stats = &stats
		if got := ratio.Reject(in); got != "" {
			t.Errorf("%d tokens at an effort that has no answers: %q", n, got)
		}
		in.Candidate.Effort = "high"
		if got := ratio.Reject(in); got != want {
			t.Errorf("%d tokens: %q, want %q", n, got, want)
		}
	}
	for _, bad := range []map[string]any{nil, {"max_tokens": -1}, {"min_tokens": 5, "max_tokens": 4}, {"max_ratio": 0.5}, {"min_ratio": 1.5}, {"max_tokens": 5, "min_answers": 0}} {
		if _, err := New("length", bad); err == nil {
			t.Errorf("%v is accepted", bad)
		}
	}
}

func TestPII(t *testing.T) {
	f := filterOf(t, "pii", nil)
	key := "sk-proj-" + "Zx9Qw8Er7Ty6Ui5Op4As3Df2" // not one that anybody has
	for _, tc := range []struct{ text, want, masked string }{
		{"Write to jane.miller@gmx.net today.", "pii:email", "Write to [EMAIL] today."},
		{"<jane@gmx.net>, (joe@gmx.net).", "pii:email", "<[EMAIL]>, ([EMAIL])."},
		{"Call (415) 867-2391 now.", "pii:phone", "Call [PHONE] now."},
		{"Call +49 30 6293 8471.", "pii:phone", "Call [PHONE]."},
		{"Tel. 415-867-2391", "pii:phone", "Tel. [PHONE]"},
		{"Card 4539 5787 6362 1486, thanks", "pii:card", "Card [CARD], thanks"},
		{"Card 4539578763621486", "pii:card", "Card [CARD]"},
		{"The server is 93.184.216.34.", "pii:ip", "The server is [IP]."},
		{"ping 2a00:1450:4001:82a::200e", "pii:ip", "ping [IP]"},
		{"key=" + key, "pii:key", "key=[KEY]"},
		{"AKIAQ3EGWZXY7N2LMKVB", "pii:key", "[KEY]"},
		{"jane@gmx.net and " + key, "pii:key", "[EMAIL] and [KEY]"},

		{"Write to jane@example.com or you@yourdomain.com.", "", ""},
		{"npm i react@18.2.0 and @types/node", "", ""},
		{"git@github.com:a/b.git", "", ""},
		{"@alice said hi", "", ""},
		{"Call 555-0123 or (212) 555-0199, or 123-456-7890.", "", ""},
		{"The year 2021-09-01, 12:30, and 3.14159265358979", "", ""},
		{"100-200-3000 = -3100", "", ""},
		{"4539 5787 6362 1487 has a wrong check digit", "", ""},
		{"Use the test card 4111 1111 1111 1111.", "", ""},
		{"1234567890123456 is a number, and so is 45395787636214860000", "", ""},
		{"0.4539578763621486 is a fraction", "", ""},
		{"2^4539578763621486", "", ""},
		{"127.0.0.1, 192.168.1.1, 10.0.0.7, 203.0.113.9, 8.8.8.8, 255.255.255.0", "", ""},
		{"version 93.184.216.34 of the program, and section 1.2.3.4", "", ""},
		{"2001:db8::1, ::1, fe80::1, 12:30:45, std::vector", "", ""},
		{"sk-xxxxxxxxxxxxxxxxxxxxxxxx and AKIAIOSFODNN7EXAMPLE", "", ""},
		{"a risk-averse and task-oriented person", "", ""},
		{"", "", ""},
	} {
		if got := f.Reject(answerTo("chat", "q", tc.text)); got != tc.want {
			t.Errorf("%q, want %q: %s", got, tc.want, tc.text)
		}
		in := answerTo("chat", "q", tc.text)
		before := in.Candidate.Messages[0]
		mask := filterOf(t, "pii", map[string]any{"action": "mask"})
		if got := mask.Reject(in); got != "" || !Masks(mask) || Masks(f) {
			t.Errorf("a mask rejects: %q", got)
		}
		mask.(Changer).Change(in)
		want := tc.masked
		if tc.want == "" {
			want = tc.text
		}
		if got := in.Candidate.Content(); got != want {
			t.Errorf("masked %q, want %q", got, want)
		}
		if *before.Content != tc.text {
			t.Error("the message that others may share was written to")
		}
		if flagged := len(in.Candidate.Flags) > 0; flagged != (tc.want != "") {
			t.Errorf("flags %v: %s", in.Candidate.Flags, tc.text)
		}
	}
	if got := f.Reject(answerTo("math", "q", "Then 415-867-2391 is subtracted.")); got != "" {
		t.Errorf("a difference: %q", got)
	}
	some := filterOf(t, "pii", map[string]any{"kinds": []any{"email"}, "allow": []any{"@gmx.net"}})
	for text, want := range map[string]string{"jane@gmx.net": "", "jane@web.de": "pii:email", "93.184.216.34": ""} {
		if got := some.Reject(answerTo("chat", "q", text)); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestPIIOfToolCallsAndVerdicts(t *testing.T) {
	arguments := `{"to":"a\n` + `jane@gmx.net","n":[4539578763621486,1.50],"d":"√ \u00e9","x":{"y":"z"}}`
	in := withReasoning("I write to jane@gmx.net.", "Her address is jane@gmx.net.")
	c := in.Candidate
	c.Messages[0].ToolCalls = []chat.ToolCall{{Name: "send", Arguments: arguments}, {Name: "send", Arguments: "not JSON jane@gmx.net"}}
	c.Extracted = chat.Text("jane@gmx.net")
	c.Verdicts = []datasets.Verdict{{Verifier: "exact", Reason: "got jane@gmx.net", Extracted: chat.Text("jane@gmx.net")}}
	if got := filterOf(t, "pii", nil).Reject(in); got != "pii:email" {
		t.Errorf("reason %q", got)
	}
	filterOf(t, "pii", map[string]any{"action": "mask"}).(Changer).Change(in)
	whole, err := json.Marshal(in.Candidate)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(whole), "gmx") || strings.Contains(string(whole), "4539578763621486") {
		t.Errorf("something was left: %s", whole)
	}
	want := `{"to":"a\n[EMAIL]","n":["[CARD]",1.50],"d":"√ \u00e9","x":{"y":"z"}}`
	if got := c.Messages[0].ToolCalls[0].Arguments; got != want {
		t.Errorf("arguments %s, want %s", got, want)
	}
	if got := c.Messages[0].ToolCalls[1].Arguments; got != "not JSON [EMAIL]" {
		t.Errorf("what is no JSON: %s", got)
	}
	if diff := cmp.Diff([]string{FlagPIIMasked}, c.Flags); diff != "" {
		t.Error(diff)
	}
}

func TestExpr(t *testing.T) {
	keep := func(v bool, err error) Expression { return func(*Input) (bool, error) { return v, err } }
	in := answerTo("chat", "q", "4")
	for _, tc := range []struct {
		f    Filter
		want string
	}{
		{NewExpr(keep(true, nil), "", false), ""},
		{NewExpr(keep(false, nil), "", false), "expr"},
		{NewExpr(keep(false, nil), "short", false), "expr:short"},
		{NewExpr(keep(true, json.Unmarshal([]byte("{"), new(int))), "short", false), ReasonCondition},
	} {
		if got := tc.f.Reject(in); got != tc.want {
			t.Errorf("reason %q, want %q", got, tc.want)
		}
	}
	if Late(NewExpr(keep(true, nil), "", false)) || !Late(NewExpr(keep(true, nil), "", true)) || Late(filterOf(t, "finish", nil)) {
		t.Error("late is what looks at a verdict")
	}
}
