package report

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/testdata"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s is not what the code gives (-update rewrites it):\n%s", path, diff)
	}
}

// answer makes a candidate; verdict "" is none.
func answer(teacher, domain, verdict string) *datasets.Candidate {
	c := &datasets.Candidate{
		Teacher: teacher, Domain: domain, Effort: "high",
		Messages:     []chat.Message{{Role: chat.RoleAssistant, Content: chat.Text("text")}},
		FinishReason: ref("stop"), PromptTokens: ref(int64(100)), CompletionTokens: ref(int64(50)),
	}
	if verdict != "" {
		c.Verdict = &verdict
	}
	c.Accepted = verdict == datasets.Pass
	return c
}

func failed(teacher, domain, class string) *datasets.Candidate {
	return &datasets.Candidate{Teacher: teacher, Domain: domain, Effort: "high", Error: &class}
}

// sample is a small comparison with one of everything.
func sample() *Report {
	a := New([]TeacherInfo{
		{ID: "k3", Model: "kimi-k3", Priced: true, PriceNote: "input 3.00, output 15.00 USD per million tokens; price list, 2026-11-01"},
		{ID: "local", Model: "small"},
	})
	for i := range 40 {
		c := answer("k3", "math", []string{datasets.Pass, datasets.Pass, datasets.Pass, datasets.Fail}[i%4])
		c.CostMicros, c.LatencyMS = ref(int64(1500)), ref(int64(1000+10*i))
		c.ReasoningTokens, c.CachedTokens = ref(int64(20)), ref(int64(80))
		c.Selected = c.Accepted
		a.Add(c)
	}
	cut := answer("k3", "math", datasets.Unknown)
	cut.FinishReason, cut.CostMicros, cut.UsageEstimated = ref("length"), ref(int64(9000)), true
	a.Add(cut)
	a.Add(failed("k3", "math", "http_500"))
	chatty := answer("k3", "chat", "")
	chatty.CostMicros, chatty.Accepted = ref(int64(100)), true
	a.Add(chatty)
	for range 3 {
		a.Add(answer("local", "math", datasets.Pass))
	}
	a.Add(answer("nobody\x1b[2J<script>alert(1)</script>", "math", datasets.Fail))
	a.SetConditions(Conditions{Prompts: []string{"p.jsonl\x1b[2J<script>alert(1)</script>"}, Tasks: 46, Samples: "one answer each", Teachers: []TeacherConditions{
		{Teacher: "k3", Model: "kimi-k3", API: "openai", Params: `{"high":{"reasoning_effort":"high"}}`, AtOnce: 256},
		{Teacher: "local", Model: "small", API: "openai", Params: "{}", AtOnce: 4},
	}})
	return a.Report()
}

func TestReportCounts(t *testing.T) {
	r := sample()
	k3 := r.Teachers[0].Figures
	want := Figures{
		Asks: 43, Answers: 42, Errors: map[string]int64{"http_500": 1}, Truncated: 1,
		Pass: 30, Fail: 10, Unknown: 1, None: 1, Accepted: 31, Selected: 30,
		PromptTokens: 4200, CachedTokens: 3200, CachedShare: ref(3200.0 / 4200), CompletionTokens: 2100, ReasoningTokens: 800,
		EstimatedUsage: 1, UnpricedAsks: 1,
		PassOfJudged: proportion(30, 40),
		PassOfAll:    proportion(30, 42), // the chat answer was never to be judged
		CostUSD:      ref(0.0691), CostPerAcceptedUSD: ref(0.0691 / 31),
		LatencyP50MS: ref(int64(1199)), LatencyP95MS: ref(int64(1375)),
	}
	if k3.Spend == nil || *k3.Spend.USD != 0.0691 {
		t.Errorf("spend %+v", k3.Spend)
	}
	k3.Spend = nil // its parts have a test of their own
	if diff := cmp.Diff(want, k3); diff != "" {
		t.Errorf("k3 (-want +got):\n%s", diff)
	}
	local := r.Teachers[1]
	if local.CostUSD != nil || local.CostPerAcceptedUSD != nil || local.UnpricedAsks != 3 {
		t.Errorf("a teacher without prices has cost %v, %v, unpriced %d", local.CostUSD, local.CostPerAcceptedUSD, local.UnpricedAsks)
	}
	if len(r.Teachers) != 3 || len(r.Cells) != 4 {
		t.Fatalf("%d teachers, %d cells", len(r.Teachers), len(r.Cells))
	}
	if c := r.Cells[0]; c.Domain != "chat" || c.PassOfJudged != nil || c.PassOfAll != nil {
		t.Errorf("a cell that nobody judged has a pass rate: %+v", c)
	}
	for _, want := range []string{"Prices of k3: input 3.00, output 15.00 USD per million tokens; price list, 2026-11-01.", "local is not priced", "1 of 43 asks of k3 is not known", "k3 sent no usage for 1"} {
		if !strings.Contains(strings.Join(r.Notes, "\n"), want) {
			t.Errorf("no note says %q", want)
		}
	}
}

func TestReportWithoutAcceptedHasNoCostPerAccepted(t *testing.T) {
	a := New([]TeacherInfo{{ID: "a", Priced: true}})
	c := answer("a", "math", datasets.Fail)
	c.CostMicros = ref(int64(5))
	a.Add(c)
	if f := a.Report().Teachers[0].Figures; f.CostPerAcceptedUSD != nil || f.CostUSD == nil {
		t.Errorf("cost %v, per accepted %v", f.CostUSD, f.CostPerAcceptedUSD)
	}
}

func TestReportOfNothing(t *testing.T) {
	r := New([]TeacherInfo{{ID: "a", Priced: true}}).Report()
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(b), `"cells":[]`) || !strings.Contains(string(b), `"errors":{}`) {
		t.Errorf("empty lists must stay lists: %s", b)
	}
	if f := r.Teachers[0]; f.PassOfJudged != nil || f.CostUSD != nil || f.LatencyP50MS != nil {
		t.Errorf("figures out of nothing: %+v", f)
	}
}

// The report depends on the set of candidates, not on their order.
func TestReportIgnoresOrder(t *testing.T) {
	testdata.Heavy(t)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 60).Draw(t, "n")
		var all []*datasets.Candidate
		for range n {
			c := answer(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "teacher"), rapid.SampledFrom([]string{"math", "code"}).Draw(t, "domain"),
				rapid.SampledFrom([]string{"", datasets.Pass, datasets.Fail, datasets.Unknown}).Draw(t, "verdict"))
			c.CostMicros = ref(rapid.Int64Range(0, 1e6).Draw(t, "cost"))
			c.LatencyMS = ref(rapid.Int64Range(0, 1e7).Draw(t, "latency"))
			c.TaskID = fmt.Sprint(len(all))
			c.SampleID = c.TaskID
			all = append(all, c)
		}
		build := func(cs []*datasets.Candidate) string {
			a := New([]TeacherInfo{{ID: "b", Priced: true}, {ID: "a", Priced: true}})
			for _, c := range cs {
				a.Add(c)
			}
			b, err := json.Marshal(a.Report())
			if err != nil {
				t.Fatal(err)
			}
			return string(b)
		}
		shuffled := slices.Clone(all)
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		r.Shuffle(n, func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if x, y := build(all), build(shuffled); x != y {
			t.Fatalf("order matters:\n%s\n%s", x, y)
		}
	})
}

func TestReportMemoryIsBounded(t *testing.T) {
	a := New(nil)
	for i := range maxCells + 500 {
		a.Add(failed("t", fmt.Sprintf("domain %d", i), fmt.Sprintf("class %d", i)))
	}
	r := a.Report()
	if len(r.Cells) != maxCells+1 || len(r.Teachers[0].Errors) > maxErrorClasses {
		t.Errorf("%d cells, %d error classes", len(r.Cells), len(r.Teachers[0].Errors))
	}
	if r.Teachers[0].Asks != maxCells+500 {
		t.Errorf("%d asks", r.Teachers[0].Asks)
	}
	if !strings.Contains(strings.Join(r.Notes, "\n"), Other) {
		t.Error("no note about what was lumped")
	}
}

func TestSketchQuantile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Int64Range(0, 1<<40), 1, 200).Draw(t, "values")
		var s sketch
		for _, v := range values {
			s.add(v, 1)
		}
		slices.Sort(values)
		for _, percent := range []int64{1, 50, 95, 100} {
			exact := values[max(1, (int64(len(values))*percent+99)/100)-1]
			got := *s.quantile(percent)
			if got < exact || float64(got) > float64(exact)*(1+1.0/64) {
				t.Fatalf("p%d of %v is %d, want %d up to 1.6 %% more", percent, values, got, exact)
			}
			if exact < 128 && got != exact {
				t.Fatalf("p%d is %d, want exactly %d", percent, got, exact)
			}
		}
	})
	var s sketch
	s.add(-5, 1)
	s.add(math.MaxInt64, 1)
	if got := *s.quantile(50); got != 0 {
		t.Errorf("a negative latency counts as %d", got)
	}
	if got := *s.quantile(100); got != math.MaxInt64 {
		t.Errorf("the largest is %d", got)
	}
}

func TestTable(t *testing.T) {
	for _, width := range []int{0, 80, 120} {
		var b bytes.Buffer
		if err := sample().Table(&b, width); err != nil {
			t.Fatal(err)
		}
		golden(t, filepath.Join("testdata", fmt.Sprintf("table-%d.txt", width)), b.Bytes())
		for _, line := range strings.Split(b.String(), "\n") {
			if width > 0 && len([]rune(line)) > width {
				t.Errorf("%d columns where %d fit: %s", len([]rune(line)), width, line)
			}
		}
		if strings.ContainsRune(b.String(), 0x1b) {
			t.Error("an escape character reached the terminal")
		}
	}
}

func TestHTML(t *testing.T) {
	var b bytes.Buffer
	if err := sample().HTML(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, filepath.Join("testdata", "report.html"), b.Bytes())
	if n := strings.Count(b.String(), "<script"); n != 1 {
		t.Errorf("%d scripts, want the page's own", n)
	}
	for _, bad := range []string{"<script>alert", "src=", "http://", "https://", "\x1b", "ZgotmplZ"} {
		if strings.Contains(b.String(), bad) {
			t.Errorf("the page holds %q", bad)
		}
	}
}

func TestJSONIsTheContract(t *testing.T) {
	schema, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, filepath.Join(testdata.Repository(t), "docs", "contract", "report.schema.json"), schema)
	b, err := json.MarshalIndent(sample(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, filepath.Join("testdata", "report.json"), append(b, '\n'))
	validate(t, schema, b)
}

func BenchmarkAdd(b *testing.B) {
	a := New(nil)
	c := answer("k3", "math", datasets.Pass)
	c.CostMicros, c.LatencyMS = ref(int64(1500)), ref(int64(1000))
	b.ReportAllocs()
	for i := range b.N {
		*c.LatencyMS = int64(i % 100_000)
		a.Add(c)
	}
}
