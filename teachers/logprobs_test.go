package teachers_test

import (
	"bytes"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/teachers"
)

// shown is one token as a test writes it: id, bytes and logprob, "?" for what
// is not known.
func shown(ts *teachers.Tokens, p []float32, i int) string {
	id, text, lp := "?", "?", "?"
	if n, ok := ts.ID(i); ok {
		id = fmt.Sprint(n)
	}
	if b, ok := ts.Bytes(i); ok {
		text = fmt.Sprintf("%q", b)
	}
	if p[i] == p[i] {
		lp = fmt.Sprint(p[i])
	}
	return id + " " + text + " " + lp
}

func shownAll(l *teachers.Logprobs) []string {
	var out []string
	for i := range l.Len() {
		line := shown(&l.Tokens, l.Logprob, i)
		start, end := l.TopOf(i)
		for j := start; j < end; j++ {
			line += " | " + shown(&l.Top, l.TopLogprob, j)
		}
		out = append(out, line)
	}
	return out
}

// chatStream is a stream of one choice, each event given by what stands in the
// choice beside the index.
func chatStream(choices ...string) []byte {
	var b strings.Builder
	for _, c := range choices {
		fmt.Fprintf(&b, "data: {\"model\":\"m\",\"choices\":[{\"index\":0,%s}]}\n\n", c)
	}
	b.WriteString("data: [DONE]\n\n")
	return []byte(b.String())
}

func TestLogprobsInEveryForm(t *testing.T) {
	const end = `"delta":{},"finish_reason":"stop"`
	for _, tc := range []struct {
		name  string
		raw   []byte
		plain bool
		want  []string
		gap   bool
	}{
		{name: "openai", raw: chatStream(
			`"delta":{"content":"Hi"},"logprobs":{"content":[{"token":"Hi","logprob":-0.5,"bytes":[72,105],"top_logprobs":[{"token":"Hi","logprob":-0.5,"bytes":[72,105]},{"token":"Yo","logprob":-1.5,"bytes":[89,111]}]}],"refusal":null}`,
			`"delta":{"content":"!"},"logprobs":{"content":[{"token":"!","logprob":0,"bytes":[33],"top_logprobs":[]}]}`, end),
			want: []string{`? "Hi" -0.5 | ? "Hi" -0.5 | ? "Yo" -1.5`, `? "!" 0`}},
		{name: "vllm with token ids: the bytes of alternatives are those of the words", raw: chatStream(
			`"delta":{"content":"é"},"token_ids":[17],"logprobs":{"content":[{"token":"token_id:17","logprob":-0.25,"bytes":[195,169],"top_logprobs":[{"token":"token_id:17","logprob":-0.25,"bytes":[116,111,107,101,110,95,105,100,58,49,55]},{"token":"token_id:4","logprob":-9999.0,"bytes":[116,111,107,101,110,95,105,100,58,52]}]}]}`, end),
			want: []string{`17 "é" -0.25 | 17 ? -0.25 | 4 ? ?`}},
		{name: "ids beside the logprobs", raw: chatStream(
			`"delta":{"content":"a"},"token_ids":[5,6],"logprobs":{"content":[{"token":"a","logprob":-1},{"token":"","logprob":-2}]}`, end),
			want: []string{`5 "a" -1`, `6 ? -2`}},
		{name: "another number of ids", raw: chatStream(
			`"delta":{"content":"a"},"token_ids":[5,6],"logprobs":{"content":[{"token":"a","logprob":-1}]}`, end),
			want: []string{`? "a" -1`}, gap: true},
		{name: "ids without logprobs", raw: chatStream(`"delta":{"content":"a"},"token_ids":[5]`, end)},
		{name: "llama.cpp", raw: chatStream(
			`"delta":{"content":"a"},"logprobs":{"content":[{"id":9,"token":"a","bytes":[97],"logprob":-1,"top_logprobs":[{"id":9,"token":"a","bytes":[97],"logprob":-1}]}]}`, end),
			want: []string{`9 "a" -1 | 9 "a" -1`}},
		{name: "the completions' form", raw: chatStream(
			`"delta":{"content":"ab"},"logprobs":{"tokens":["a","b\u00e9"],"token_logprobs":[null,-2],"top_logprobs":[null,{"b\u00e9":-2,"c\n":-3}],"text_offset":[0,1]}`, end),
			want: []string{`? "a" ?`, `? "bé" -2 | ? "bé" -2 | ? "c\n" -3`}, gap: true},
		{name: "what is no probability", raw: chatStream(
			`"delta":{"content":"abcdef"},"logprobs":{"content":[{"token":"a","logprob":null},{"token":"b","logprob":-9999.0},{"token":"c","logprob":NaN},{"token":"d","logprob":-Infinity},{"token":"e","logprob":"NaN"},{"token":"f"},{"token":"g","logprob":-1e300}]}`, end),
			want: []string{`? "a" ?`, `? "b" ?`, `? "c" ?`, `? "d" ?`, `? "e" ?`, `? "f" ?`, `? "g" ?`}, gap: true},
		{name: "part of a character", raw: chatStream(
			`"delta":{"content":"x"},"logprobs":{"content":[{"token":"\ufffd","logprob":-1,"bytes":[239,191,189]},{"token":"\ufffd","logprob":-1,"bytes":[230,149]},{"token":"\ufffd","logprob":-1}]}`, end),
			want: []string{`? ? -1`, `? "\xe6\x95" -1`, `? ? -1`}},
		{name: "whole", plain: true,
			raw:  []byte(`{"choices":[{"index":0,"message":{"content":"a"},"finish_reason":"stop","logprobs":{"content":[{"token":"a","logprob":-1,"bytes":null,"top_logprobs":[null,7,{"token":"a","logprob":-1}]}]}}]}`),
			want: []string{`? "a" -1 | ? "a" -1`}},
		{name: "fewer than the endpoint counts", plain: true,
			raw:  []byte(`{"choices":[{"index":0,"message":{"content":"a b c d"},"finish_reason":"stop","logprobs":{"content":[{"token":"a","logprob":-1}]}}],"usage":{"prompt_tokens":3,"completion_tokens":7}}`),
			want: []string{`? "a" -1`}, gap: true},
		{name: "hidden reasoning is no gap", plain: true,
			raw:  []byte(`{"choices":[{"index":0,"message":{"content":"a"},"finish_reason":"stop","logprobs":{"content":[{"token":"a","logprob":-1}]}}],"usage":{"prompt_tokens":3,"completion_tokens":70,"completion_tokens_details":{"reasoning_tokens":68}}}`),
			want: []string{`? "a" -1`}},
		{name: "none", plain: true, raw: []byte(`{"choices":[{"index":0,"message":{"content":"a"},"finish_reason":"stop","logprobs":null}]}`)},
		{name: "of another shape", plain: true, raw: []byte(`{"choices":[{"index":0,"message":{"content":"a"},"finish_reason":"stop","logprobs":{"content":{"token":"a"},"tokens":"a","token_logprobs":3}}]}`),
			want: []string{"? ? ?"}, gap: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			format := teachers.FormatOpenAIStream
			if tc.plain {
				format = teachers.FormatOpenAIJSON
			}
			a, err := teachers.Parse(format, tc.raw)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			if a.Logprobs != nil {
				got = shownAll(a.Logprobs)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
			if gap := slices.Contains(a.Flags, teachers.FlagLogprobGap); gap != tc.gap {
				t.Errorf("gap flagged %t, want %t", gap, tc.gap)
			}
		})
	}
}

// A long answer with many alternatives is read in little more memory than its
// numbers take, and nothing of it is lost.
func TestLogprobsOfALongAnswer(t *testing.T) {
	const tokens, k = 30_000, 20
	var b bytes.Buffer
	for i := range tokens {
		fmt.Fprintf(&b, `data: {"choices":[{"index":0,"delta":{"content":"t"},"logprobs":{"content":[{"token":"token_id:%d","logprob":-%d.5,"bytes":[116],"top_logprobs":[`, i, i%9)
		for j := range k {
			if j > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, `{"token":"token_id:%d","logprob":-%d.25,"bytes":[116,111,107,101,110]}`, j, j)
		}
		b.WriteString("]}]}}]}\n\n")
	}
	b.WriteString(`data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	a, err := teachers.Parse(teachers.FormatOpenAIStream, b.Bytes())
	runtime.ReadMemStats(&after)
	if err != nil {
		t.Fatal(err)
	}
	l := a.Logprobs
	if l == nil || l.Len() != tokens || l.Top.Len() != tokens*k || l.K() != k || l.Gaps() != 0 {
		t.Fatalf("%d tokens, %d alternatives", l.Len(), l.Top.Len())
	}
	if got := shown(&l.Tokens, l.Logprob, tokens-1); got != `29999 "t" -2.5` {
		t.Error(got)
	}
	start, end := l.TopOf(tokens - 1)
	if got := shown(&l.Top, l.TopLogprob, end-1); end-start != k || got != `19 "token" -19.25` {
		t.Error(got)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 128<<20 {
		t.Errorf("%d MB of raw bytes took %d MB to read", b.Len()>>20, used>>20)
	}
}

// What an endpoint may send without end is cut, and flagged.
func TestLogprobsAreBounded(t *testing.T) {
	var b bytes.Buffer
	b.WriteString(`{"choices":[{"index":0,"message":{"content":"a"},"finish_reason":"stop","logprobs":{"content":[`)
	for range 4_300_000 {
		b.WriteString("{},")
	}
	b.WriteString("{}]}}]}")
	a, err := teachers.Parse(teachers.FormatOpenAIJSON, b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if n := a.Logprobs.Len(); n > 4_200_000 || !slices.Contains(a.Flags, teachers.FlagLogprobGap) {
		t.Errorf("%d tokens, flags %v", n, a.Flags)
	}
}

func TestLogprobParams(t *testing.T) {
	profile := func(name string) teachers.Profile {
		p, ok := teachers.ProfileOf(name)
		if !ok {
			t.Fatalf("no profile %s", name)
		}
		return p
	}
	for _, tc := range []struct {
		profile, model string
		want           string
	}{
		{"openai", "gpt-4.1", "map[logprobs:true top_logprobs:20]"},
		{"openai", "gpt-5-mini", "none"},
		{"vllm", "Qwen/Qwen3-8B", "map[logprobs:true return_token_ids:true return_tokens_as_token_ids:true top_logprobs:20]"},
		{"sglang", "m", "map[logprobs:true top_logprobs:20]"},
		{"moonshot", "kimi-k3", "none"},
		{"anthropic", "claude", "none"},
		{"generic", "m", "map[logprobs:true top_logprobs:20]"},
	} {
		params, ok := profile(tc.profile).LogprobParams(tc.model, 20)
		got := fmt.Sprint(params)
		if !ok {
			got = "none"
		}
		if got != tc.want {
			t.Errorf("%s %s: %s, want %s", tc.profile, tc.model, got, tc.want)
		}
	}
}

// FuzzLogprobs holds the reader to its own shape whatever comes.
func FuzzLogprobs(f *testing.F) {
	f.Add([]byte(`{"content":[{"token":"a","logprob":-1,"bytes":[97],"top_logprobs":[{"token":"b","logprob":null}]}]}`))
	f.Add([]byte(`{"tokens":["a"],"token_logprobs":[-1],"top_logprobs":[{"a":-1}]}`))
	f.Add([]byte(`{"content":[{"token":"token_id:3","bytes":[300,-1,"x"],"id":99999999999}]}`))
	f.Fuzz(func(t *testing.T, logprobs []byte) {
		raw := fmt.Appendf(nil, `{"choices":[{"index":0,"message":{"content":"a"},"finish_reason":"stop","token_ids":[1,2],"logprobs":%s}]}`, logprobs)
		a, err := teachers.Parse(teachers.FormatOpenAIJSON, raw)
		if err != nil || a.Logprobs == nil {
			return
		}
		l := a.Logprobs
		if l.Tokens.Len() != l.Len() || len(l.TopEnds) != l.Len() || l.Top.Len() != len(l.TopLogprob) || l.Len() == 0 {
			t.Fatalf("columns of different lengths: %d %d %d %d %d", l.Tokens.Len(), l.Len(), len(l.TopEnds), l.Top.Len(), len(l.TopLogprob))
		}
		_ = shownAll(l)
		for _, p := range slices.Concat(l.Logprob, l.TopLogprob) {
			if math.IsInf(float64(p), 0) || p <= -9999 {
				t.Fatalf("logprob %v", p)
			}
		}
	})
}
