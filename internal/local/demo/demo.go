// Package demo is what `stillhouse demo` builds from: generated prompts of
// three domains and nine simulated teachers for them, real HTTP servers on
// loopback that speak the chat-completions protocol. Each teacher has its own
// skill, its own style of reasoning, its own latency and price, and says
// everywhere that it is simulated. What a teacher answers depends on the
// teacher and the request alone, so a demo can be run again, killed and
// continued with the same result.
//
//	teachers, err := demo.Start(ctx, demo.Options{Dir: home.Path("demo")})
//	recipe, err := demo.Write(home.Path("demo"), teachers.All)
//	// stillhouse build <recipe>
//	err = teachers.Stop(ctx)
package demo

import "time"

// Domains of the demo.
const (
	Math       = "math"       // word problems with a number as gold answer
	Science    = "science"    // multiple choice, four options
	Structured = "structured" // output that a pattern or a JSON schema checks
)

// Efforts of the demo, from the cheapest to the dearest.
const (
	Low  = "low"
	High = "high"
	Max  = "max"
)

// character is how one teacher behaves. The figures are made up to look like a
// family of models, and no model's.
type character struct {
	domain, effort string
	skill          float64 // share of right answers
	firstToken     time.Duration
	stream         time.Duration // from the first token to the last
	input, output  float64       // US dollars per million tokens
	concurrency    int           // that the recipe asks for
}

// characters are the nine teachers, three domains by three efforts. A max
// teacher also serves its domain's high tasks, so that the comparison has
// tasks that two teachers answered.
var characters = []character{
	{Math, Low, 0.61, 25 * time.Millisecond, 15 * time.Millisecond, 0.10, 0.40, 4},
	{Math, High, 0.80, 60 * time.Millisecond, 60 * time.Millisecond, 0.60, 2.50, 4},
	{Math, Max, 0.93, 110 * time.Millisecond, 190 * time.Millisecond, 3.00, 15.00, 8},
	{Science, Low, 0.55, 20 * time.Millisecond, 10 * time.Millisecond, 0.08, 0.30, 4},
	{Science, High, 0.74, 50 * time.Millisecond, 50 * time.Millisecond, 0.50, 2.00, 4},
	{Science, Max, 0.88, 100 * time.Millisecond, 170 * time.Millisecond, 2.50, 12.00, 8},
	{Structured, Low, 0.70, 30 * time.Millisecond, 15 * time.Millisecond, 0.10, 0.40, 4},
	{Structured, High, 0.86, 55 * time.Millisecond, 55 * time.Millisecond, 0.60, 2.40, 4},
	{Structured, Max, 0.95, 120 * time.Millisecond, 160 * time.Millisecond, 3.00, 14.00, 8},
}

func (c *character) model() string { return "demo-" + c.domain + "-" + c.effort }

// serves are the efforts whose tasks the teacher is asked about.
func (c *character) serves() []string {
	if c.effort == Max {
		return []string{High, Max}
	}
	return []string{c.effort}
}

// Teacher is one simulated model and where it listens.
type Teacher struct {
	Model   string // such as demo-math-high
	BaseURL string // such as http://127.0.0.1:40001/v1
	Domain  string
	Effort  string
}

func characterOf(model string) *character {
	for i := range characters {
		if characters[i].model() == model {
			return &characters[i]
		}
	}
	return nil
}
