package recipe

import (
	"strings"
	"testing"
)

func TestWhen(t *testing.T) {
	env := Env{
		Domain: "math", Effort: "high", Gold: "18", Group: "g", Meta: map[string]any{"level": 3, "tags": []any{"a", "b"}, "deep": map[string]any{"x": "y"}},
		Teacher: "k3", Model: "kimi", Content: "The answer is 18", Reasoning: "hm", Finish: "stop", CompletionTokens: 12, Verdict: "pass", Sample: 1,
	}
	for source, want := range map[string]bool{
		`domain == "math"`:                              true,
		`domain != "math"`:                              false,
		`domain in ["code", "math"]`:                    true,
		`effort == "high" and not (finish == "length")`: true,
		`gold != "" && content contains gold`:           true,
		`content matches "[0-9]+$"`:                     true,
		`content startsWith "The" or group == "x"`:      true,
		`len(content) > 10`:                             true,
		`lower(model) == "kimi"`:                        true,
		`completion_tokens > 100`:                       false,
		`sample == 0`:                                   false,
		`verdict == "pass" and teacher == "k3"`:         true,
		`len(reasoning) == 2`:                           true,
		`meta.level >= 3`:                               true,
		`"a" in meta.tags`:                              true,
		`meta.deep.x == "y"`:                            true,
		`meta.none == nil`:                              true,
		`meta?.none?.deeper == nil`:                     true,
	} {
		w, fault := compileWhen(source)
		if fault != nil {
			t.Errorf("%s: %v", source, fault)
			continue
		}
		if got, err := w.Match(env); err != nil || got != want {
			t.Errorf("%s: %v, %v; want %v", source, got, err, want)
		}
		if w.String() != source {
			t.Errorf("%s is written %s", source, w)
		}
	}
	var none *When
	if ok, err := none.Match(env); !ok || err != nil || none.String() != "" {
		t.Errorf("no condition matches %v, %v; want everything", ok, err)
	}
}

func TestWhenFailsOnOtherTypes(t *testing.T) {
	w, fault := compileWhen(`meta.level > 2`)
	if fault != nil {
		t.Fatal(fault)
	}
	_, err := w.Match(Env{Meta: map[string]any{"level": "three"}})
	if err == nil || !strings.HasPrefix(err.Error(), `when "meta.level > 2": `) {
		t.Errorf("error %v, want one that shows the condition", err)
	}
}

// Whatever could take more time or memory than the candidate is large is
// refused when the recipe is loaded.
func TestWhenIsBounded(t *testing.T) {
	for _, source := range []string{
		`any(1..1000000, true)`,
		`all(meta.tags, # == "a")`,
		`len(filter(meta.tags, true)) > 0`,
		`reduce(1..30, #acc + #acc, content) == ""`,
		`repeat(content, 1000000) == ""`,
		`let a = content + content; len(a + a) > 0`,
		`len(1..1000000) > 0`,
		`content matches gold`,
		`now() > now()`,
		`len(split(content, "")) > 0`,
		`len(toJSON(meta)) > 0`,
		strings.Repeat("(", 5000) + "true" + strings.Repeat(")", 5000),
		strings.Repeat("not ", 1000) + "true",
		"true" + strings.Repeat(" and true", 1000),
		strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + " == 1",
	} {
		if _, fault := compileWhen(source); fault == nil {
			t.Errorf("%.60s is accepted", source)
		}
	}
}

func FuzzWhen(f *testing.F) {
	for _, s := range []string{`domain == "math"`, `len(content) > 10 and meta.a.b in [1, 2.5]`, `{"a": 1}.a == 1`, `content[1:2] == "x"`, `(1 + 2) ** 3 % 2 == 1 ? true : false`, `meta["a"] ?? false`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, source string) {
		w, fault := compileWhen(source)
		if fault != nil {
			if fault.Line < 1 || fault.Col < 1 || fault.Msg == "" || fault.Hint == "" {
				t.Fatalf("%q: %#v", source, fault)
			}
			return
		}
		// Errors are fine, panics are not.
		_, _ = w.Match(Env{Content: "x", Meta: map[string]any{"a": map[string]any{"b": "c"}}})
	})
}
