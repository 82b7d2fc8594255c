package teachers

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stillhouse-data/stillhouse/internal/chat"
)

const canaryKey = "sk-canary-0123456789/abcdef+XYZ"

// escapedEvery writes every character of a text as a JSON escape.
func escapedEvery(s string) string {
	var b strings.Builder
	for _, r := range s {
		fmt.Fprintf(&b, `\u%04x`, r)
	}
	return b.String()
}

func percentEvery(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		fmt.Fprintf(&b, "%%%02X", c)
	}
	return b.String()
}

func TestASecretIsFoundInEveryForm(t *testing.T) {
	quoted, _ := json.Marshal(canaryKey)
	twice, _ := json.Marshal(string(quoted))
	for name, form := range map[string]string{
		"plain":                   canaryKey,
		"JSON":                    strings.Trim(string(quoted), `"`),
		"JSON with slashes":       strings.ReplaceAll(canaryKey, "/", `\/`),
		"JSON in JSON":            strings.Trim(string(twice), `"\`),
		"every one escaped":       escapedEvery(canaryKey),
		"one escaped":             strings.Replace(canaryKey, "n", `\u006e`, 1),
		"escaped twice":           strings.ReplaceAll(escapedEvery(canaryKey), `\`, `\\`),
		"query":                   url.QueryEscape(canaryKey),
		"path":                    url.PathEscape(canaryKey),
		"every one percent":       percentEvery(canaryKey),
		"base64":                  base64.StdEncoding.EncodeToString([]byte(canaryKey)),
		"base64 for URLs":         base64.RawURLEncoding.EncodeToString([]byte(canaryKey)),
		"base64 of a header":      base64.StdEncoding.EncodeToString([]byte("Bearer " + canaryKey + "\r\n")),
		"base64 of basic":         base64.StdEncoding.EncodeToString([]byte(":" + canaryKey)),
		"base64 of user":          base64.StdEncoding.EncodeToString([]byte("me:" + canaryKey + "!")),
		"hexadecimal":             hex.EncodeToString([]byte(canaryKey)),
		"hexadecimal in capitals": strings.ToUpper(hex.EncodeToString([]byte(canaryKey))),
	} {
		s := secrets{"another-secret-of-this-process", canaryKey}
		text := "before <" + form + "> after <" + form + ">"
		got := string(s.answer([]byte(text)))
		if strings.Count(got, RedactedInAnswer) != 2 || !strings.HasPrefix(got, "before <") || !strings.Contains(got, "> after <") {
			t.Errorf("%s: %s is made %s", name, text, got)
		}
		for _, part := range []string{"canary", "Y2FuYXJ5", "63616e617279", `\u0063\u0061`, "%63%61"} {
			if strings.Contains(got, part) || strings.Contains(s.excerpt(text), part) {
				t.Errorf("%s: %q is left in %s or %s", name, part, got, s.excerpt(text))
			}
		}
	}
}

func TestInnocentTextStaysTheSameSlice(t *testing.T) {
	s := secrets{canaryKey, "0123456789abcdef"}
	for _, text := range []string{"", "sk-canary", `{"a":"\u003cb\u003e 100%25 \/ sk-"}`, strings.Repeat("0123456789", 20), canaryKey[:len(canaryKey)-1]} {
		raw := []byte(text)
		if got := s.partial(raw); string(got) != text || len(raw) > 0 && &got[0] != &raw[0] {
			t.Errorf("%q became %q", text, got)
		}
	}
}

// cutStream is a stream whose events cut a text at the given places.
func cutStream(field, text string, at []int, escape bool) string {
	var b strings.Builder
	at = append(slices.Clone(at), len(text))
	slices.Sort(at)
	from := 0
	for _, to := range at {
		part, _ := json.Marshal(text[from:to])
		if escape {
			part = []byte(`"` + escapedEvery(text[from:to]) + `"`)
		}
		fmt.Fprintf(&b, "data: {\"id\":\"1\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{%q:%s},\"logprobs\":{\"content\":[{\"token\":%s,\"bytes\":[115],\"logprob\":-0.1}]}}]}\n\n", field, part, part)
		from = to
	}
	b.WriteString("data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	return b.String()
}

func TestASecretThatEventsCutIsTakenOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		field := rapid.SampledFrom([]string{"content", "reasoning_content", "reasoning", "refusal"}).Draw(t, "field")
		before, after := rapid.StringMatching(`[a-zé"\\ ]{0,8}`).Draw(t, "before"), rapid.StringMatching(`[a-zé"\\ ]{0,8}`).Draw(t, "after")
		text := before + canaryKey + after
		// Only between characters: an event is valid JSON.
		cuts := rapid.SliceOfN(rapid.IntRange(0, len(canaryKey)), 1, 6).Draw(t, "cuts")
		for i := range cuts {
			cuts[i] += len(before)
		}
		raw := []byte(cutStream(field, text, cuts, rapid.Bool().Draw(t, "escaped")))
		s := secrets{canaryKey}
		answer, err := Parse(FormatOpenAIStream, raw)
		if err != nil {
			t.Fatal(err)
		}
		clean, said, ok := s.withoutSecrets(FormatOpenAIStream, raw, answer)
		if !ok || said == nil {
			t.Fatalf("it cannot be taken out of %s", raw)
		}
		got := ""
		for one := range texts(said) {
			if strings.Contains(one, RedactedInAnswer) {
				got = one
			}
		}
		if want := before + RedactedInAnswer + after; got != want {
			t.Errorf("%q, want %q, from %s", got, want, clean)
		}
		if !slices.Contains(said.Flags, FlagSecretRedacted) {
			t.Errorf("flags %v", said.Flags)
		}
		if said.Logprobs != nil {
			t.Errorf("tokens are left: %+v", said.Logprobs)
		}
		if again := s.partial(clean); !bytes.Equal(again, clean) {
			t.Errorf("a second look changes %s to %s", clean, again)
		}
	})
}

func TestASecretInToolArgumentsThatEventsCut(t *testing.T) {
	event := func(index int, args string) string {
		text, _ := json.Marshal(args)
		return fmt.Sprintf("data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":%d,\"id\":\"c%d\",\"function\":{\"name\":\"f\",\"arguments\":%s}}]}}]}\n\n", index, index, text)
	}
	// Two calls come in turns, so that only their own indexes tell them apart.
	raw := event(0, `{"k":"`+canaryKey[:9]) + event(1, `{"other":"`) + event(0, canaryKey[9:20]) + event(1, canaryKey[:5]) +
		event(0, canaryKey[20:]+`"}`) + event(1, canaryKey[5:]+`"}`) + "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n"
	answer, err := Parse(FormatOpenAIStream, []byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	_, said, ok := secrets{canaryKey}.withoutSecrets(FormatOpenAIStream, []byte(raw), answer)
	if !ok || len(said.Message.ToolCalls) != 2 {
		t.Fatalf("%v %+v", ok, said)
	}
	for i, want := range []string{`{"k":"` + RedactedInAnswer + `"}`, `{"other":"` + RedactedInAnswer + `"}`} {
		if got := said.Message.ToolCalls[i].Arguments; got != want {
			t.Errorf("call %d: %s, want %s", i, got, want)
		}
	}
}

func TestPlainBodiesAndPartsWithASecret(t *testing.T) {
	for _, raw := range []string{
		`{"model":"m","choices":[{"index":0,"message":{"content":"a ` + canaryKey + `"},"finish_reason":"stop"}]}`,
		`{"model":"m","choices":[{"index":0,"message":{"content":[{"type":"text","text":"a "},{"type":"text","text":"` + canaryKey + `"}]},"finish_reason":"stop"}]}`,
		`{"model":"` + canaryKey + `","system_fingerprint":"` + canaryKey + `","choices":[{"index":0,"message":{"content":"a ` + canaryKey + `"},"finish_reason":"stop"}]}`,
	} {
		answer, err := Parse(FormatOpenAIJSON, []byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		clean, said, ok := secrets{canaryKey}.withoutSecrets(FormatOpenAIJSON, []byte(raw), answer)
		if !ok || said.Message.Content == nil || *said.Message.Content != "a "+RedactedInAnswer || strings.Contains(string(clean), "canary") || !slices.Contains(said.Flags, FlagSecretRedacted) {
			t.Errorf("%s became %s: %+v", raw, clean, said)
		}
	}
}

// What cannot be taken out is not kept: parts of one content list are one text
// to the reader, and two to the redaction.
func TestWhatCannotBeTakenOutIsNotKept(t *testing.T) {
	raw := []byte(`{"choices":[{"index":0,"message":{"content":[{"type":"text","text":"` + canaryKey[:9] + `"},{"type":"text","text":"` + canaryKey[9:] + `"}]},"finish_reason":"stop"}]}`)
	answer, err := Parse(FormatOpenAIJSON, raw)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(*answer.Message.Content, canaryKey) {
		t.Skip("the parts are not one text")
	}
	if _, _, ok := (secrets{canaryKey}).withoutSecrets(FormatOpenAIJSON, raw, answer); ok {
		t.Error("an answer that holds a key was called clean")
	}
}

func FuzzAcrossPieces(f *testing.F) {
	f.Add([]byte(cutStream("content", "a "+canaryKey, []int{4, 9}, false)))
	f.Add([]byte(cutStream("content", "a "+canaryKey, []int{4, 9}, true)))
	f.Add([]byte(`{"a":["\ud83d\ude00","` + canaryKey + `"],"logprobs":[1,{"b":2}]}`))
	f.Add([]byte("data: {\"a\":\"\\"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		before := bytes.Clone(raw)
		s := secrets{canaryKey}
		got := s.partial(raw)
		if !bytes.Equal(raw, before) {
			t.Fatal("the response was changed in place")
		}
		if _, _, ok := formsOf(canaryKey).find(got, 0); ok && !bytes.Contains(got, []byte(RedactedInAnswer)) {
			t.Errorf("a secret is left in %q", got)
		}
	})
}

func TestSpanOf(t *testing.T) {
	value := []byte(`"a\n\u00e9\ud83d\ude00z"`) // a, newline, é (2 bytes), a face (4 bytes), z
	for _, c := range []struct {
		start, end int
		want       string
	}{{0, 1, "a"}, {1, 2, `\n`}, {2, 4, `\u00e9`}, {4, 8, `\ud83d\ude00`}, {8, 9, "z"}, {0, 9, `a\n\u00e9\ud83d\ude00z`}, {-5, 1, "a"}, {8, 99, "z"}, {9, 12, ""}} {
		from, to := spanOf(value, c.start, c.end)
		if got := string(value[from:to]); got != c.want {
			t.Errorf("bytes %d to %d stand as %q, want %q", c.start, c.end, got, c.want)
		}
	}
	if text := string(appendText(nil, value)); text != "a\né😀z" || chat.RoleUser == "" {
		t.Errorf("the string says %q", text)
	}
}

// The sieve holds back nothing that a search would find, and lets pass what is
// innocent.
func TestSieveAgreesWithTheSearch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := secrets{canaryKey, "sk-proj-ABCDEFGHIJKLMNOP", "short", `odd"key/with\slashes&é-0123`}
		secret := rapid.SampledFrom([]string{s[0], s[1], s[3]}).Draw(t, "secret")
		form := rapid.SampledFrom([]func(string) string{
			func(s string) string { return s }, escapedEvery, percentEvery,
			func(s string) string { b, _ := json.Marshal(s); return string(b[1 : len(b)-1]) },
			func(s string) string { return strings.ReplaceAll(s, "/", `\/`) },
			func(s string) string { return hex.EncodeToString([]byte(s)) },
			func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
			func(s string) string { return s[:len(s)/2] },
		}).Draw(t, "form")
		text := rapid.StringMatching(`[a-z\\%"u0]{0,12}`).Draw(t, "before") + form(secret) + rapid.StringMatching(`[a-z\\%"u0]{0,12}`).Draw(t, "after")
		found := false
		for _, one := range s {
			if len(one) >= minSecretInAnswer {
				_, _, ok := formsOf(one).find([]byte(text), 0)
				found = found || ok
			}
		}
		if got := s.sieve().holds([]byte(text)); got != found {
			t.Errorf("the sieve says %v of %q, the search %v", got, text, found)
		}
	})
}
