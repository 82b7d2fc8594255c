package report

import (
	"bytes"
	"encoding/json"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/report/stats"
	"github.com/stillhouse-data/stillhouse/internal/testdata"
)

var probedAt = time.Date(2026, 12, 7, 3, 0, 0, 0, time.UTC)

// pairOf is a pair of verdicts and lengths.
func pairOf(before, now string, tokens, tokensNow int64) DriftPair {
	return DriftPair{
		Before: &DriftSample{Verdict: &before, Tokens: &tokens, Model: "m-1", Fingerprint: "fp-1"},
		After:  &DriftSample{Verdict: &now, Tokens: &tokensNow, Model: "m-1", Fingerprint: "fp-1"},
	}
}

func TestATeacherThatDidNotChange(t *testing.T) {
	var pairs []DriftPair
	for i := range 50 {
		verdict := []string{datasets.Pass, datasets.Fail}[i%2]
		pairs = append(pairs, pairOf(verdict, verdict, 100, 100+int64(i%3)-1))
	}
	pairs = append(pairs, DriftPair{Before: pairs[0].Before}, DriftPair{After: pairs[0].After})
	d := CompareDrift("k3", 1, probedAt, pairs)
	if d.Changed || len(d.Why) != 0 || d.Asked != 52 || d.Pairs != 50 || d.Failed != 1 || *d.PassP != 1 || d.Worse != 0 {
		t.Errorf("%+v", d)
	}
	if line := d.Line(); !strings.Contains(line, "no change shown") {
		t.Error(line)
	}
}

// Nine pairs of which all passed and now fail, at three tests, have an adjusted p
// of 3·2^-8: above a hundredth, so that "no change shown" would say too much.
func TestProbesThatCanShowNothing(t *testing.T) {
	of := func(n int) Drift {
		var pairs []DriftPair
		for range n {
			p := pairOf(datasets.Pass, datasets.Fail, 800, 400)
			p.Before.Reasoning, p.After.Reasoning = ref(int64(80)), ref(int64(40))
			pairs = append(pairs, p)
		}
		return CompareDrift("k3", 1, probedAt, pairs)
	}
	few, enough := of(9), of(10)
	if few.Changed || !few.TooFew || few.Family != 3 || !strings.Contains(few.Line(), "too few prompts to show a change") || few.row()[2] != "too few prompts to show a change" {
		t.Errorf("of nine: %+v, %s", few, few.Line())
	}
	if !enough.Changed || enough.TooFew {
		t.Errorf("of ten: %+v", enough)
	}
	if none := CompareDrift("k3", 1, probedAt, []DriftPair{{}}); !none.TooFew {
		t.Errorf("of none: %+v", none)
	}
}

func TestATeacherThatChanged(t *testing.T) {
	var pairs []DriftPair
	for i := range 50 {
		now := datasets.Pass
		if i < 15 {
			now = datasets.Fail
		}
		p := pairOf(datasets.Pass, now, 800, 400)
		p.After.Model, p.After.Fingerprint = "m-2", "fp-2"
		pairs = append(pairs, p)
	}
	pairs[40].After.Verdict, pairs[41].After.Verdict = ref(datasets.Unknown), nil
	d := CompareDrift("k3", 3, probedAt, pairs)
	// 15 worse, none better: 2·2^-15. 50 shorter: 2·2^-50.
	if !d.Changed || d.Worse != 15 || d.Better != 0 || d.Unknown != 2 || math.Abs(*d.PassP-math.Ldexp(1, -14)) > 1e-12 || math.Abs(*d.LengthP-math.Ldexp(1, -49)) > 1e-20 {
		t.Errorf("%+v pass %g length %g", d, *d.PassP, *d.LengthP)
	}
	if *d.TokensBefore != 800 || *d.TokensNow != 400 || d.PassBefore.Of != 48 || d.PassNow.Count != 33 {
		t.Errorf("%+v", d)
	}
	for _, want := range []string{"m-2", "passes", "tokens"} {
		if !strings.Contains(strings.Join(d.Why, "\n"), want) {
			t.Errorf("why does not say %q: %q", want, d.Why)
		}
	}
	if line := d.Line(); !strings.Contains(line, "probe 3 of 2026-12-07") || !strings.Contains(line, "another model answers in 50 of 50") || !strings.Contains(line, "IT CHANGED") {
		t.Error(line)
	}
}

// A fingerprint that changed alone is told and no change.
func TestFingerprintsAreTold(t *testing.T) {
	p := pairOf(datasets.Pass, datasets.Pass, 10, 10)
	p.After.Fingerprint = "fp-2"
	d := CompareDrift("k3", 1, probedAt, []DriftPair{p, pairOf(datasets.Pass, datasets.Pass, 10, 10)})
	if d.Changed || !strings.Contains(d.Line(), "another fingerprint in 1 of 2") {
		t.Errorf("%+v %s", d, d.Line())
	}
}

func TestDriftOfNothing(t *testing.T) {
	for _, pairs := range [][]DriftPair{nil, {{}}, {{Before: &DriftSample{}, After: &DriftSample{}}}} {
		d := CompareDrift("k3", 1, probedAt, pairs)
		if d.Changed || d.PassP != nil || d.LengthP != nil || d.Models == nil || d.Why == nil {
			t.Errorf("%+v", d)
		}
		_ = d.Line()
	}
}

// exactSignTest counts in whole numbers.
func exactSignTest(a, b int64) float64 {
	n, k := a+b, min(a, b)
	if n == 0 || a == b {
		return 1
	}
	sum := new(big.Int)
	for i := range k + 1 {
		sum.Add(sum, new(big.Int).Binomial(n, i))
	}
	p, _ := new(big.Rat).SetFrac(sum.Lsh(sum, 1), new(big.Int).Lsh(big.NewInt(1), uint(n))).Float64()
	return min(1, p)
}

func TestSignTest(t *testing.T) {
	testdata.Heavy(t)
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Int64Range(0, 1500).Draw(t, "a"), rapid.Int64Range(0, 1500).Draw(t, "b")
		got, want := stats.McNemar(a, b), exactSignTest(a, b)
		if math.Abs(got-want) > 1e-9*max(want, 1e-300) && math.Abs(got-want) > 1e-300 {
			t.Fatalf("McNemar(%d, %d) = %g, want %g", a, b, got, want)
		}
		if got != stats.McNemar(b, a) || got < 0 || got > 1 {
			t.Fatalf("McNemar(%d, %d) = %g", a, b, got)
		}
	})
	for _, tc := range []struct {
		a, b int64
		p    float64
	}{{0, 0, 1}, {5, 5, 1}, {0, 5, 0.0625}, {1, 9, 22.0 / 1024}, {0, 8, 2.0 / 256}} {
		if got := stats.McNemar(tc.a, tc.b); math.Abs(got-tc.p) > 1e-12 {
			t.Errorf("McNemar(%d, %d) = %g, want %g", tc.a, tc.b, got, tc.p)
		}
	}
}

func TestDriftIgnoresTheOrderOfPairs(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var pairs []DriftPair
	for range 60 {
		p := pairOf([]string{datasets.Pass, datasets.Fail, datasets.Unknown}[r.IntN(3)], []string{datasets.Pass, datasets.Fail}[r.IntN(2)], int64(r.IntN(100)), int64(r.IntN(100)))
		p.After.Model = []string{"m-1", "m-2", "m-3"}[r.IntN(3)]
		pairs = append(pairs, p)
	}
	text := func() string {
		b, err := json.Marshal(CompareDrift("t", 1, probedAt, pairs))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	want := text()
	for range 20 {
		r.Shuffle(len(pairs), func(i, j int) { pairs[i], pairs[j] = pairs[j], pairs[i] })
		if got := text(); got != want {
			t.Fatalf("%s\n%s", want, got)
		}
	}
}

func TestDriftNamesAreBounded(t *testing.T) {
	var pairs []DriftPair
	for i := range 500 {
		p := pairOf(datasets.Pass, datasets.Pass, 1, 1)
		p.After.Fingerprint = strings.Repeat("x", i+1)
		pairs = append(pairs, p)
	}
	d := CompareDrift("t", 1, probedAt, pairs)
	if len(d.Fingerprints) > driftNames || !slices.ContainsFunc(d.Fingerprints, func(n DriftName) bool { return n.Now == Other }) {
		t.Errorf("%d names", len(d.Fingerprints))
	}
}

// What a probe showed is in the report, in the table and on the page; names of
// endpoints steer neither.
func TestReportsShowDrift(t *testing.T) {
	a := New([]TeacherInfo{{ID: "k3", Model: "kimi-k3"}})
	a.Add(answer("k3", "math", datasets.Pass))
	var pairs []DriftPair
	for range 12 {
		p := pairOf(datasets.Pass, datasets.Fail, 100, 50)
		p.After.Model = "evil\x1b[2J<script>"
		pairs = append(pairs, p)
	}
	a.AddDrift(CompareDrift("k3", 2, probedAt, pairs))
	r := a.Report()
	var table, page bytes.Buffer
	if err := r.Table(&table, 80); err != nil {
		t.Fatal(err)
	}
	if err := r.HTML(&page); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(table.String(), "drift of k3, probe 2") || strings.ContainsRune(table.String(), 0x1b) {
		t.Error(table.String())
	}
	for line := range strings.Lines(table.String()) {
		if len([]rune(line)) > 81 {
			t.Errorf("wider than 80: %s", line)
		}
	}
	for _, bad := range []string{"<script>alert", "\x1b", "ZgotmplZ"} {
		if strings.Contains(page.String(), bad) {
			t.Errorf("the page holds %q", bad)
		}
	}
	if !strings.Contains(page.String(), "Drift") || !strings.Contains(page.String(), "2, 2026-12-07") || !strings.Contains(page.String(), "it changed") || !strings.Contains(strings.Join(r.Notes, " "), "McNemar") {
		t.Error("the page does not tell of the probe")
	}
	schema, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	validate(t, schema, text)
}
