package verify

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/internal/testdata"
)

func fromFile[T any](t testing.TB, name string) (out T) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAddressesJudge(t *testing.T) {
	list := fromFile[[]struct{ Name, Answer string }](t, "injections.json")
	if len(list) < 20 {
		t.Fatalf("%d injections", len(list))
	}
	for _, one := range list {
		if AddressesJudge(one.Answer) == "" {
			t.Errorf("%s: not seen", one.Name)
		}
		// Neither a beginning nor an end hides it.
		if AddressesJudge(strings.Repeat("word ", 5000)+"\n"+one.Answer+"\n"+strings.Repeat("more ", 5000)) == "" {
			t.Errorf("%s in a long answer: not seen", one.Name)
		}
	}
	for _, text := range fromFile[[]string](t, "innocent.json") {
		if what := AddressesJudge(text); what != "" {
			t.Errorf("%q: %s", text, what)
		}
	}
	for _, text := range []string{"", " ", "\xff", "\U0001F3F4\U000E0067\U000E0062\U000E0065\U000E006E\U000E0067\U000E007F"} {
		if what := AddressesJudge(text); what != "" {
			t.Errorf("%q: %s", text, what)
		}
	}
}

// Of the 7,245 ordinary answers of nine models two speak to a judge: both play a
// cook before the judges of a contest, and both are among those read here. Of
// GSM8K's, none does.
func TestOrdinaryAnswersSpeakToNobody(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of patterns")
	}
	count := func(pattern, field string) (n, hit int) {
		files, err := filepath.Glob(filepath.Join(filepath.Dir(testdata.Path(t, "data/gsm8k/test.jsonl")), "..", pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, name := range files {
			f, err := os.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			s := bufio.NewScanner(f)
			s.Buffer(nil, 64<<20)
			for s.Scan() {
				var row map[string]any
				if json.Unmarshal(s.Bytes(), &row) != nil {
					continue
				}
				if text, ok := row[field].(string); ok {
					if n++; AddressesJudge(text) != "" {
						hit++
					}
				}
			}
			_ = f.Close()
		}
		return n, hit
	}
	for file, want := range map[string]int{"claude-3-opus-20240229": 1, "gpt4_1106_preview": 1, "vicuna-13b": 0} {
		if n, hit := count("alpacaeval/"+file+".jsonl", "output"); n != 805 || hit != want {
			t.Errorf("%s: %d of %d", file, hit, n)
		}
	}
	if n, hit := count("gsm8k/test.jsonl", "answer"); n != 1319 || hit != 0 {
		t.Errorf("%d of %d", hit, n)
	}
}

func FuzzAddressesJudge(f *testing.F) {
	for _, one := range fromFile[[]struct{ Name, Answer string }](f, "injections.json") {
		f.Add(one.Answer)
	}
	f.Fuzz(func(t *testing.T, text string) {
		first := AddressesJudge(text)
		if again := AddressesJudge(text); again != first {
			t.Error("not the same twice")
		}
	})
}

func BenchmarkAddressesJudge(b *testing.B) {
	text := strings.Repeat("The answer follows from the first step, and the second one shows why it must be so. ", 100)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		AddressesJudge(text)
	}
}
