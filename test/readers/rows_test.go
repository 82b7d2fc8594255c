//go:build readers

package readers

import (
	"fmt"
	"math"
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/chat"
)

func ptr[T any](v T) *T { return &v }

// conversation has what readers get wrong: null beside "", other scripts, a
// zero byte, 4 MB in one value, lists of structs in lists of structs.
func conversation() []chat.Message {
	long := strings.Repeat("Let x be 7; then 3x = 21. ", 4<<20/26)
	return []chat.Message{
		{Role: "system", Content: ptr("")},
		{Role: "user", Content: ptr("Что такое 7×3? 数学 العربية \U0001F600 \x00 \u2028 e\u0301 \t\r\n \"quoted\" \\ </s>")},
		{Role: "assistant", ReasoningContent: &long, ReasoningKind: ptr("raw"), Train: true, ToolCalls: []chat.ToolCall{
			{ID: "c1", Type: "function", Name: "mul", Arguments: `{"a": 7, "b": null, "text": "\u00e9"}`},
			{ID: "", Type: "", Name: "", Arguments: ""},
		}},
		{Role: "tool", Content: ptr("21"), ToolCallID: ptr("c1"), Name: ptr("mul")},
		{Role: "assistant", Content: ptr("bad \xff byte"), Train: true},
	}
}

func trainRows() []datasets.Row {
	return []datasets.Row{
		{PromptID: "a", Messages: []chat.Message{}},
		{
			TaskID: "b/math/max", PromptID: "b", SampleID: "s1", Domain: "math", Effort: "max", Teacher: "k3", TeacherModel: "kimi-k3",
			Messages: conversation(), Tools: ptr(`[{"type":"function","function":{"name":"mul"}}]`), Verdict: ptr("pass"), Score: ptr(0.1),
			Images:           []datasets.Image{{Digest: "d", MediaType: "image/png", Key: "k"}, {}},
			CompletionTokens: ptr(int64(math.MaxInt64)), Licence: ptr(""), Meta: ptr(`{"n":null}`),
		},
		{PromptID: "c", Messages: []chat.Message{{Role: "user"}}, Score: ptr(0.0), CompletionTokens: ptr(int64(0)), Tools: ptr("")},
	}
}

func manyRows(n int) []datasets.Row {
	rows := make([]datasets.Row, n)
	for i := range rows {
		id := fmt.Sprintf("%032x", i/2*7919) // two rows of each prompt
		rows[i] = datasets.Row{
			TaskID: id + "/math/high", PromptID: id, SampleID: fmt.Sprint(i), Domain: "math", Teacher: fmt.Sprint("t", i%9),
			Messages: []chat.Message{
				{Role: "user", Content: ptr(fmt.Sprint("question ", i))},
				{Role: "assistant", Content: ptr(strings.Repeat("word ", i)), Train: true},
			},
		}
		if i%3 == 0 {
			rows[i].Score = ptr(float64(i) / 7)
		}
	}
	return rows
}

func pairs() []datasets.Pair {
	m := conversation()
	return []datasets.Pair{
		{PromptID: "a"},
		{
			TaskID: "b/math/max", PromptID: "b", Domain: "math", Effort: "max", Prompt: m[:2], Chosen: m[2:], Rejected: m[4:],
			ChosenTeacher: "k3", RejectedTeacher: "r1", ChosenScore: ptr(1.0), RejectedScore: ptr(-math.SmallestNonzeroFloat64), Margin: ptr(1e300), CrossTeacher: true,
		},
	}
}

func promptRows() []datasets.PromptRow {
	return []datasets.PromptRow{
		{PromptID: "a"},
		{
			TaskID: "b/math/max", PromptID: "b", Domain: "math", Effort: "max", Split: "train", Status: datasets.StatusClean, StatusOf: ptr(""),
			Route: []string{"k3", ""}, RouteReason: "all", Messages: conversation()[:2], Gold: ptr("21"), Tests: ptr("[]"), Group: ptr("g"),
			Source: "data/gsm8k.jsonl:7", Copies: 2,
		},
	}
}

func candidates() []datasets.Candidate {
	return []datasets.Candidate{
		{PromptID: "a", Messages: []chat.Message{}},
		{
			SampleID: "s1", TaskID: "b/math/max", PromptID: "b", Domain: "math", Effort: "max", Split: "train", Teacher: "k3",
			ModelAsked: "kimi-k3", ModelAnswered: ptr(""), AskID: "a1", SampleIndex: math.MinInt32, ParamsAsked: `{"temperature":0.6}`,
			Messages: conversation(), ArgsValid: ptr(false), FinishReason: ptr("stop"), PromptTokens: ptr(int64(0)), LatencyMS: ptr(int64(1) << 62),
			Attempts: 3, Flags: []string{"", "x"}, Verdict: ptr("pass"), Score: ptr(1.5), Extracted: ptr(""),
			Verdicts: []datasets.Verdict{
				{Verifier: "math", Version: "1", Verdict: "pass", Extracted: ptr("21"), Score: ptr(1.0)},
				{Verifier: "regex", Version: "1", Verdict: "unknown", Reason: "no text"},
			},
			Accepted: true, Selected: true, RejectReasons: []string{"length", "refusal"},
		},
		{PromptID: "c", Error: ptr("timeout"), ErrorText: ptr("no answer within 60m"), Messages: []chat.Message{{Role: "user", Content: ptr("hi")}}},
	}
}

func attempts() []datasets.Attempt {
	return []datasets.Attempt{
		{PromptID: "a"},
		{
			AttemptID: "0123", PromptID: "b", TaskID: "b/math/max", SampleID: "s1", AskID: "a1", Teacher: "k3", ModelAsked: "kimi-k3",
			Number: 2, Times: 1, StartedUS: ptr(int64(1_790_000_000_000_000)), Status: ptr(int32(200)), Error: ptr("truncated"),
			ErrorText: ptr("the response ended without a finish reason"), LatencyMS: ptr(int64(1200)), TTFTMS: ptr(int64(0)), Bytes: 777,
			PartialContent: ptr(""), PartialReasoning: ptr("Let me see …"), PromptTokens: ptr(int64(19)), CachedTokens: ptr(int64(0)),
			CacheWriteTokens: ptr(int64(0)), CompletionTokens: ptr(int64(4)), ReasoningTokens: ptr(int64(0)),
			UsageSource: ptr(datasets.UsageEstimated), Billable: true, CostMicros: ptr(int64(117)), PriceID: ptr("0011223344556677"),
			PriceAsOf: ptr("2026-11-01"), Batch: ptr("batch_1"), ShareUS: ptr(int64(1)), Outcome: datasets.OutcomeAnswered,
		},
		{PromptID: "c", Number: 1, Times: math.MaxInt32, Error: ptr("network"), CostMicros: ptr(int64(0)), Outcome: datasets.OutcomeUndone},
	}
}
