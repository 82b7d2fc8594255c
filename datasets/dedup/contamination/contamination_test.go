package contamination

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stillhouse-data/stillhouse/internal/testdata"
)

// texts reads one field of a file of JSON lines.
func texts(t testing.TB, path, field string) []string {
	t.Helper()
	f, err := os.Open(testdata.Path(t, path))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []string
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var row map[string]any
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		out = append(out, row[field].(string))
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// index holds items that are called by their numbers from 0.
func index(o Options, items ...string) *Index {
	b := NewBuilder(o)
	for i, text := range items {
		b.Add(Item{Set: "set", Name: fmt.Sprint(i), Part: "question", Text: text})
	}
	return b.Build()
}

func names(hits []Hit) (out []string) {
	for _, h := range hits {
		out = append(out, h.Name)
	}
	return out
}

// Of GSM8K's 1,319 test problems four share more than half of their words with
// another one: two pairs that were written from one template.
func TestGSM8KHoldsTwoPairsOfItself(t *testing.T) {
	questions := texts(t, "data/gsm8k/test.jsonl", "question")
	s := index(Options{}, questions...).Scanner()
	var found []string
	for i, q := range questions {
		hits := s.Match(q)
		if len(hits) == 0 || hits[0].Name != fmt.Sprint(i) || hits[0].Share != 1 {
			t.Fatalf("problem %d is not found in itself: %+v", i, hits)
		}
		for _, h := range hits[1:] {
			found = append(found, fmt.Sprintf("%d holds %.3f of %s", i, h.Share, h.Name))
		}
	}
	want := []string{"418 holds 0.590 of 558", "488 holds 0.556 of 761", "558 holds 0.575 of 418", "761 holds 0.577 of 488"}
	if !slices.Equal(found, want) {
		t.Errorf("found %q, want %q", found, want)
	}
	for _, q := range texts(t, "data/alpacaeval/gpt4_1106_preview.jsonl", "instruction") {
		if hits := s.Match(q); len(hits) > 0 {
			t.Errorf("found in %q: %+v", q, hits)
		}
	}
}

const (
	ducks  = "Janet's ducks lay 16 eggs per day. She eats three for breakfast every morning and bakes muffins for her friends every day with four. How much does she make?"
	robe   = "A robe takes 2 bolts of blue fiber and half that much white fiber. How many bolts in total does it take?"
	prompt = "You are a careful tutor. Solve the following problem step by step and give the final answer at the end:\n"
)

func TestWhatIsContaminated(t *testing.T) {
	half := strings.Join(strings.Fields(ducks)[:13], " ")
	more := strings.Join(strings.Fields(ducks)[:16], " ")
	for _, tc := range []struct {
		name, prompt string
		want         []string
	}{
		{"the item itself", ducks, []string{"0"}},
		{"in a template", prompt + ducks + "\nAnswer:", []string{"0"}},
		{"other punctuation and case", strings.ToUpper(strings.NewReplacer("'", "’", ".", " — ", " ", "\n").Replace(ducks)), []string{"0"}},
		{"two items", robe + " " + ducks, []string{"0", "1"}},
		{"a few-shot prompt", "Q: " + robe + "\nA: 3\nQ: What is 2 + 2?\nA:", []string{"1"}},
		{"split over two turns", more + "\n" + strings.TrimPrefix(ducks, more), []string{"0"}},
		{"more than half", more, []string{"0"}},
		{"less than half", half, nil},
		{"one number is another", strings.Replace(robe, "2 bolts", "3 bolts", 1), []string{"1"}},
		{"every few words another", strings.Join(slices.Collect(func(yield func(string) bool) {
			for i, w := range strings.Fields(ducks) {
				if i%7 == 6 {
					w = "really"
				}
				if !yield(w) {
					return
				}
			}
		}), " "), nil},
		{"seven words in a row", "She eats three for breakfast every morning", nil},
		{"the template alone", prompt, nil},
		{"the short item, in other punctuation", "what is the capital of france", []string{"2"}},
		{"the short item inside more", "Tell me, what is the capital of France?", nil},
		{"nothing", "", nil},
		{"punctuation", "?!…", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			x := index(Options{}, ducks, robe, "What is the capital of France?")
			if got := names(x.Scanner().Match(tc.prompt)); !slices.Equal(got, tc.want) {
				t.Errorf("found %q, want %q", got, tc.want)
			}
		})
	}
}

func TestHitsSayWhatWasFoundWhere(t *testing.T) {
	b := NewBuilder(Options{})
	b.Add(Item{Set: "gsm8k/test.jsonl", Name: "test.jsonl:1", Part: "question", Text: ducks})
	words := strings.Fields(ducks)
	held := prompt + strings.Join(words[:12], " ") + " AND THEN " + strings.Join(words[16:28], " ")
	want := []Hit{{
		Set: "gsm8k/test.jsonl", Name: "test.jsonl:1", Part: "question", Share: 25.0 / 30, Words: 30,
		Spans: []Span{
			{0, 13, "Janet's ducks lay 16 eggs per day. She eats three for breakfast"},
			{17, 29, "muffins for her friends every day with four. How much does she"},
		},
	}}
	if got := b.Build().Scanner().Match(held); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// What hundreds of items begin with says nothing of a prompt that has it too;
// the item itself is still found in it.
func TestATemplateAccusesNobody(t *testing.T) {
	const template = "The following are multiple choice questions with answers about the subject that is named below, choose one: "
	var items []string
	for i := range 200 {
		items = append(items, fmt.Sprintf("%snumber %d of them all asks for %d", template, i, i*i))
	}
	s := index(Options{}, items...).Scanner()
	if hits := s.Match(template + "which of these rivers is the longest?"); len(hits) > 0 {
		t.Errorf("the template alone: %+v", hits)
	}
	if got := names(s.Match("Please: " + items[17])); !slices.Equal(got, []string{"17"}) {
		t.Errorf("an item is found as %q, want 17", got)
	}
	few := index(Options{}, items[:50]...).Scanner()
	if hits := few.Match(template + "which?"); len(hits) != MostHits {
		t.Errorf("fifty items share it and %d are found, want all that are kept, %d", len(hits), MostHits)
	}
}

func TestWords(t *testing.T) {
	for _, tc := range []struct {
		text string
		want []string
	}{
		{"", nil},
		{"Hello, World!", []string{"hello", "world"}},
		{"3.5-2", []string{"3", "5", "2"}},
		{"don’t don't", []string{"don", "t", "don", "t"}},
		{"x²", []string{"x2"}},
		{"ＡＢＣ ﬁn", []string{"abc", "fin"}},
		{"Ünï cafe\u0301 café", []string{"ünï", "café", "café"}},
		{"北京hello世界", []string{"北", "京", "hello", "世", "界"}},
		{"がパ", []string{"が", "パ"}},
		{"हिन्दी भाषा", []string{"हिन्दी", "भाषा"}},
		{"a\xffb", []string{"a", "b"}},
		{"a\u200bb", []string{"a", "b"}},
	} {
		s := wordsOf(tc.text)
		var got []string
		for _, at := range s.list {
			got = append(got, s.lower[at[0]:at[1]])
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%q has the words %q, want %q", tc.text, got, tc.want)
		}
		if n := Words(tc.text); n != len(tc.want) {
			t.Errorf("%q has %d words, want %d", tc.text, n, len(tc.want))
		}
	}
}

// Chinese items are found as well as English ones.
func TestScriptsWithoutSpaces(t *testing.T) {
	const item = "小明有三个苹果，他又买了五个苹果，然后把其中的一半送给了小红。请问小明现在还剩下几个苹果？"
	s := index(Options{}, item).Scanner()
	if hits := s.Match("请一步一步地解答：" + strings.ReplaceAll(item, "，", "\n")); len(hits) != 1 || hits[0].Share != 1 {
		t.Errorf("found %+v", hits)
	}
	if hits := s.Match("小红有三个苹果，她把一个苹果送给了小明。"); len(hits) > 0 {
		t.Errorf("found in another problem: %+v", hits)
	}
}

func TestABuilderCountsWhatItTakes(t *testing.T) {
	b := NewBuilder(Options{})
	for _, text := range []string{robe, strings.ToUpper(robe), "…", "", "two words"} {
		b.Add(Item{Text: text})
	}
	if b.Items() != 2 || b.Empty() != 2 || b.Words() != 24 || b.Build().Items() != 2 {
		t.Errorf("%d items of %d words, %d empty, want 2, 24 and 2", b.Items(), b.Words(), b.Empty())
	}
}

// A text over a small vocabulary has many matches.
func text(t *rapid.T, name string, most int) string {
	words := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "d", "你", "5"}), 0, most).Draw(t, name)
	return strings.Join(words, " ")
}

// plain is the definition, written down without hashes.
func plain(n int, share float64, item, prompt string) (covered int, found bool) {
	words := func(s string) (out []string) {
		w := wordsOf(s)
		for _, at := range w.list {
			out = append(out, w.lower[at[0]:at[1]])
		}
		return out
	}
	own, theirs := words(item), words(prompt)
	if len(own) == 0 {
		return 0, false
	}
	if slices.Equal(own, theirs) {
		return len(own), true
	}
	is := make([]bool, len(own))
	for i := 0; i+n <= len(own); i++ {
		for j := 0; j+n <= len(theirs); j++ {
			if slices.Equal(own[i:i+n], theirs[j:j+n]) {
				for k := range n {
					is[i+k] = true
				}
			}
		}
	}
	for _, c := range is {
		if c {
			covered++
		}
	}
	return covered, float64(covered) > share*float64(len(own))
}

func TestMatchingIsTheDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 5).Draw(t, "n")
		share := rapid.SampledFrom([]float64{0, 0.3, 0.5, 0.9}).Draw(t, "share")
		prompt := text(t, "prompt", 25)
		seen := map[string]bool{}
		var items []string
		for i := range rapid.IntRange(1, 5).Draw(t, "items") {
			item := text(t, fmt.Sprint("item ", i), 15)
			if key := strings.Join(strings.Fields(item), " "); !seen[key] {
				seen[key] = true
				items = append(items, item)
			}
		}
		got := index(Options{N: n, Share: &share, Common: 1000}, items...).Scanner().Match(prompt)
		found := map[string]Hit{}
		for _, h := range got {
			found[h.Name] = h
		}
		for i, item := range items {
			covered, want := plain(n, share, item, prompt)
			h, is := found[fmt.Sprint(i)]
			if is != want {
				t.Fatalf("item %q in %q: found is %v, want %v", item, prompt, is, want)
			}
			if is && h.Share != float64(covered)/float64(h.Words) {
				t.Fatalf("item %q in %q: share %v, want %d of %d", item, prompt, h.Share, covered, h.Words)
			}
		}
	})
}

// How the items are cut into slices is nothing that anybody sees.
func TestSlicesFindWhatOneIndexFinds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := Options{N: 3, Common: 1000}
		prompt := text(t, "prompt", 30)
		whole, one := NewBuilder(o), NewBuilder(o)
		var parts []Hit
		seen := map[string]bool{}
		for i := range rapid.IntRange(1, 12).Draw(t, "items") {
			item := Item{Set: "s", Name: fmt.Sprintf("%02d", i), Text: text(t, fmt.Sprint(i), 12)}
			if key := strings.Join(strings.Fields(item.Text), " "); seen[key] {
				continue
			} else {
				seen[key] = true
			}
			whole.Add(item)
			one.Add(item)
			if rapid.Bool().Draw(t, "cut") {
				parts = append(parts, one.Build().Scanner().Match(prompt)...)
				one = NewBuilder(o)
			}
		}
		parts = Best(append(parts, one.Build().Scanner().Match(prompt)...))
		want := whole.Build().Scanner().Match(prompt)
		if len(parts) != len(want) || len(want) > 0 && !reflect.DeepEqual(parts, want) {
			t.Fatalf("slices find %+v, the whole %+v", parts, want)
		}
	})
}

func FuzzMatch(f *testing.F) {
	f.Add(ducks, prompt+ducks)
	f.Add("北京 \xff a", "\u0301\u0301")
	f.Add("İstanbul İstanbul İstanbul", "i̇stanbul")
	f.Fuzz(func(t *testing.T, item, prompt string) {
		s := index(Options{N: 2}, item, robe).Scanner()
		for _, h := range s.Match(prompt) {
			if !(h.Share > 0.5 && h.Share <= 1) || len(h.Spans) == 0 {
				t.Fatalf("hit %+v", h)
			}
			end := -1
			for _, span := range h.Spans {
				if span.Start <= end || span.End <= span.Start || span.End > h.Words || len(span.Text) > spanBytes+len("…") {
					t.Fatalf("span %+v of %+v", span, h)
				}
				end = span.End
			}
		}
		if Words(item) > 0 && !slices.Contains(names(s.Match(item)), "0") {
			t.Fatalf("%q does not hold itself", item)
		}
	})
}
