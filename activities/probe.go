package activities

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/invopop/jsonschema"

	"github.com/stillhouse-data/stillhouse/internal/recipe"
	"github.com/stillhouse-data/stillhouse/internal/secrets"
	"github.com/stillhouse-data/stillhouse/teachers"
)

// probesAtOnce is how many teachers are probed at the same time; one teacher's
// requests go out one after another.
const probesAtOnce = 8

// A ProbeReport is what `probe` found of a recipe's teachers, in the recipe's
// order.
type ProbeReport struct {
	Recipe   string                  `json:"recipe" jsonschema_description:"the recipe's file"`
	Dataset  string                  `json:"dataset"`
	Teachers []*teachers.ProbeResult `json:"teachers"`
	MostUSD  float64                 `json:"most_usd" jsonschema_description:"what the probe could cost at most where token caps are kept, of the teachers with a price"`
	CostUSD  float64                 `json:"cost_usd" jsonschema_description:"what it cost, of the teachers with a price"`
}

// A Probe is a probe of a recipe's teachers that has not begun.
type Probe struct {
	recipe *recipe.Recipe
	asked  []*teacher
	params []map[string]any
}

// NewProbe prepares a probe of the teachers with those ids, of all that answer
// over a network where there are none. ids must be the recipe's. Each teacher
// is asked with its parameters at the first effort that it serves.
func NewProbe(r *recipe.Recipe, ids []string, ring *secrets.Keyring) (*Probe, error) {
	rt, err := newRuntime(r, &Sources{})
	if err != nil {
		return nil, err
	}
	rt.useKeys(ring, nil)
	p := &Probe{recipe: r}
	for i := range r.Teachers {
		spec := &r.Teachers[i]
		t := rt.teachers[spec.ID]
		if t.config == nil || len(ids) > 0 && !slices.Contains(ids, spec.ID) {
			continue
		}
		params := spec.Params
		if efforts := effortsOf(r, spec); len(efforts) > 0 {
			params = spec.ParamsFor(efforts[0])
		}
		p.asked, p.params = append(p.asked, t), append(p.params, params)
	}
	return p, nil
}

// Teachers counts the teachers that will be probed.
func (p *Probe) Teachers() int { return len(p.asked) }

// MostUSD is what the probe can cost at most where the endpoints keep token
// caps, and how many of its teachers have no price.
func (p *Probe) MostUSD() (usd float64, unpriced int) {
	for i, t := range p.asked {
		usd += float64(teachers.MostProbeCost(t.config, p.params[i])) / 1e6
		if t.price == nil {
			unpriced++
		}
	}
	return usd, unpriced
}

// Run probes. done is called when a teacher is through, from one goroutine at a
// time.
func (p *Probe) Run(ctx context.Context, done func(*teachers.ProbeResult)) *ProbeReport {
	report := &ProbeReport{Recipe: p.recipe.File, Dataset: p.recipe.Name, Teachers: make([]*teachers.ProbeResult, len(p.asked))}
	var wg sync.WaitGroup
	var mu sync.Mutex
	places := make(chan struct{}, probesAtOnce)
	for i, t := range p.asked {
		wg.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			result := teachers.Probe(ctx, t.config, p.params[i])
			mu.Lock()
			defer mu.Unlock()
			report.Teachers[i] = result
			done(result)
		})
	}
	wg.Wait()
	for _, r := range report.Teachers {
		report.MostUSD += r.MostUSD
		report.CostUSD += r.CostUSD
	}
	return report
}

// ProbeSchema is the JSON Schema of what `probe --json` prints, generated from
// [ProbeReport]. Within v1 it only grows, by optional fields.
func ProbeSchema() ([]byte, error) {
	r := jsonschema.Reflector{AllowAdditionalProperties: true}
	s := r.Reflect(&ProbeReport{})
	s.ID = "https://stillhouse-data.github.io/schema/probe-result.schema.json"
	s.Title = "Result of a probe"
	s.Description = "The object that `stillhouse probe --json` prints: what a few cheap requests told of each teacher. Texts come from the endpoints and are not to be trusted."
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(b, '\n'), nil
}
