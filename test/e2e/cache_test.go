//go:build integration

package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Of the context cache's proof: documents with questions about each.
const (
	cacheDocuments   = 50
	cacheQuestions   = 20
	cacheCharacters  = 20_000 // of a document
	cacheConcurrency = 16
	// cacheShare is the least part of the cached tokens of a perfect order.
	cacheShare = 0.90
	// cacheSlower is how much longer the ordered run may take than one that
	// nothing orders, beside the noise of the machine.
	cacheSlower = 1.10
)

// cacheLibrary writes the documents' questions in shuffled order. Where
// everything that is shared stands last, nothing can be cached: the questions
// cost an endpoint the same, and nothing orders them.
func cacheLibrary(t *testing.T, sharedFirst bool) (path string, rows []string) {
	t.Helper()
	r := rand.New(rand.NewPCG(7, 11))
	words := strings.Fields("the still copper column vapour wash foreshots hearts feints reflux condenser grain barley yeast temperature gauge cut proof")
	for d := range cacheDocuments {
		var text strings.Builder
		fmt.Fprintf(&text, "Document %d. ", d)
		for text.Len() < cacheCharacters {
			text.WriteString(words[r.IntN(len(words))])
			text.WriteByte(' ')
		}
		document := text.String()[:cacheCharacters]
		for q := range cacheQuestions {
			question := fmt.Sprintf("Question %d of document %d: what follows from line %d?", q, d, 1+r.IntN(200))
			prompt := document + "\n\n" + question
			if !sharedFirst {
				prompt = question + "\n\n" + document
			}
			row, err := json.Marshal(map[string]string{"prompt": prompt})
			if err != nil {
				t.Fatal(err)
			}
			rows = append(rows, string(row))
		}
	}
	r.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	return write(t, filepath.Join(t.TempDir(), "library.jsonl"), strings.Join(rows, "\n")+"\n"), rows
}

func cacheRecipe(t *testing.T, name, prompts string, s *sim) string {
	t.Helper()
	return write(t, filepath.Join(t.TempDir(), name+".yaml"), fmt.Sprintf(`name: %s
prompts: [{path: %s}]
teachers:
  - id: reader
    base_url: %s
    model: reader
    limits: {concurrency: %d}
    params: {max_tokens: 400}
    price: {input: 3.00, cached_input: 0.30, output: 15.00, as_of: 2026-11-01, source: price list}
`, name, prompts, s.url(), cacheConcurrency))
}

// perfectCache is what an endpoint reports as cached when it is asked one
// question after the other, document by document.
func perfectCache(t *testing.T, s *sim, rows []string) int {
	t.Helper()
	byDocument := map[string][]string{}
	for _, row := range rows {
		var r struct{ Prompt string }
		decodeJSON(t, row, &r)
		name, _, _ := strings.Cut(r.Prompt, ".")
		byDocument[name] = append(byDocument[name], r.Prompt)
	}
	for _, prompts := range byDocument {
		for _, prompt := range prompts {
			body, err := json.Marshal(map[string]any{"model": "reader", "max_tokens": 1, "messages": []any{map[string]string{"role": "user", "content": prompt}}})
			if err != nil {
				t.Fatal(err)
			}
			resp, err := http.Post(s.url()+"/chat/completions", "application/json", strings.NewReader(string(body)))
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				t.Fatalf("the endpoint answers %s", resp.Status)
			}
		}
	}
	return s.stats()["reader"].CachedTokens
}

// TestContextCachesPay asks 20 questions about each of 50 documents, which come
// in shuffled order, at an endpoint with a context cache: nearly all that a
// perfect order would have cached is cached, and it takes no longer.
func TestContextCachesPay(t *testing.T) {
	args := []string{"-models", "reader", "-prefix-cache", "5m", "-ttft", "150ms", "-tps", "400", "-synthetic-tokens", "200", "-chunk", "4096"}
	prompts, rows := cacheLibrary(t, true)
	quick := startSim(t, "-models", "reader", "-prefix-cache", "5m", "-synthetic-tokens", "5", "-chunk", "4096")
	perfect := perfectCache(t, quick, rows)
	if least := (cacheQuestions - 1) * cacheDocuments * (cacheCharacters/4 - 512); perfect < least {
		t.Fatalf("a perfect order has %d cached tokens, want at least %d: the test reads the endpoint wrongly", perfect, least)
	}

	s := startSim(t, args...)
	h := newHouse(t)
	recipe := cacheRecipe(t, "cached", prompts, s)
	var plan struct {
		Teachers []struct {
			PromptTokens int64   `json:"prompt_tokens"`
			CachedTokens int64   `json:"cached_tokens"`
			CacheSaves   float64 `json:"cache_saves_usd"`
		} `json:"teachers"`
	}
	decodeJSON(t, h.run(0, "plan", recipe, "--json").stdout(), &plan)
	began := time.Now()
	r := h.build(recipe)
	ordered := time.Since(began)
	st := s.stats()["reader"]
	if st.CachedTokens < int(cacheShare*float64(perfect)) {
		t.Errorf("%d tokens were cached, and %d in a perfect order (%.1f %%)", st.CachedTokens, perfect, 100*float64(st.CachedTokens)/float64(perfect))
	}
	if st.PeakConcurrency < cacheConcurrency {
		t.Errorf("%d requests at once, want %d", st.PeakConcurrency, cacheConcurrency)
	}
	if st.PaidTwice != 0 || st.Completed != cacheDocuments*cacheQuestions {
		t.Errorf("%d answers, %d paid twice; want each of %d once", st.Completed, st.PaidTwice, cacheDocuments*cacheQuestions)
	}

	// The cost is by the endpoint's own accounts.
	cost := (float64(st.PromptTokens-st.CachedTokens)*3 + float64(st.CachedTokens)*0.3 + float64(st.CompletionTokens)*15) / 1e6
	if diff := r.CostUSD - cost; diff > 0.001*cost || diff < -0.001*cost {
		t.Errorf("it cost $%.4f, and $%.4f by the endpoint's accounts", r.CostUSD, cost)
	}
	if got := plan.Teachers[0]; float64(got.CachedTokens) < 0.85*float64(perfect) || float64(got.CachedTokens) > 1.15*float64(perfect) || got.CacheSaves <= 0 {
		t.Errorf("the plan says %d of %d prompt tokens are cached and that saves $%.2f; a perfect order has %d", got.CachedTokens, got.PromptTokens, got.CacheSaves, perfect)
	}

	// The same work where nothing is shared from the beginning, so that nothing
	// orders it: the ordered run is as fast.
	plain, _ := cacheLibrary(t, false)
	u := startSim(t, args...)
	began = time.Now()
	newHouse(t).build(cacheRecipe(t, "unordered", plain, u))
	unordered := time.Since(began)
	if ordered.Seconds() > cacheSlower*unordered.Seconds()+1 {
		t.Errorf("the ordered run took %v, the unordered one %v", ordered, unordered)
	}

	// Again: nothing is asked, the same bytes.
	again := h.build(recipe)
	if after := s.stats()["reader"].Completed; !again.Unchanged || again.AnswersNew != 0 || after != st.Completed {
		t.Errorf("a second run: unchanged %v, %d answers new, %d answered", again.Unchanged, again.AnswersNew, after)
	}
	shown := h.run(0, "show", "cached").stdout()
	if !strings.Contains(shown, "cached") {
		t.Errorf("show says nothing of the cache:\n%s", shown)
	}
	t.Logf("cached %d of %d tokens (%.1f %% of a perfect order's %d); ordered %v, unordered %v (cached %d); cost $%.4f",
		st.CachedTokens, st.PromptTokens, 100*float64(st.CachedTokens)/float64(perfect), perfect, ordered.Round(100*time.Millisecond),
		unordered.Round(100*time.Millisecond), u.stats()["reader"].CachedTokens, r.CostUSD)
}
