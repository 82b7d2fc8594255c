package report

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Measures of a [Distribution].
const (
	MeasureLength    = "length"    // of the answer, in code points
	MeasureReasoning = "reasoning" // of the reasoning that is shown, in code points
	MeasureTTFT      = "ttft_ms"   // request sent to first token
	MeasureLatency   = "latency_ms"
)

// measureNames are the measures in the order in which they are shown.
var measureNames = []string{MeasureLength, MeasureReasoning, MeasureTTFT, MeasureLatency}

// A Distribution is how one measure of a teacher's answers at one effort
// spreads.
type Distribution struct {
	Measure string `json:"measure" jsonschema:"description=length or reasoning in code points; ttft_ms or latency_ms in milliseconds"`
	Teacher string `json:"teacher"`
	Effort  string `json:"effort"`
	Count   int64  `json:"count" jsonschema:"description=answers that have it"`
	P5      int64  `json:"p5" jsonschema:"description=percentiles by nearest rank; exact below 128 and at most 1.6 % too large above"`
	P25     int64  `json:"p25"`
	P50     int64  `json:"p50"`
	P75     int64  `json:"p75"`
	P95     int64  `json:"p95"`
}

// maxEfforts bounds the efforts that a teacher's distributions tell apart: they
// may come from a column of anything. What comes later is one more.
const maxEfforts = 16

// measured collects the measures of some answers.
type measured struct{ length, reasoning, ttft, latency sketch }

func (m *measured) of(measure string) *sketch {
	switch measure {
	case MeasureLength:
		return &m.length
	case MeasureReasoning:
		return &m.reasoning
	case MeasureTTFT:
		return &m.ttft
	}
	return &m.latency
}

func (m *measured) merge(o *measured) {
	for _, name := range measureNames {
		m.of(name).merge(o.of(name))
	}
}

// at is what collects the measures of one effort.
func (m *manner) at(effort string) *measured {
	one := m.efforts[effort]
	if one == nil {
		if len(m.efforts) >= maxEfforts {
			effort = Other
		}
		if one = m.efforts[effort]; one != nil {
			return one
		}
		if m.efforts == nil {
			m.efforts = map[string]*measured{}
		}
		one = &measured{}
		m.efforts[strings.Clone(effort)] = one
	}
	return one
}

// all is the measures of all efforts together.
func (m *manner) all() *measured {
	out := &measured{}
	for _, effort := range slices.Sorted(maps.Keys(m.efforts)) {
		out.merge(m.efforts[effort])
	}
	return out
}

// distributions are those of all teachers, by measure, in the report's order.
func (a *Aggregator) distributions(infos []TeacherInfo) []Distribution {
	var out []Distribution
	for _, measure := range measureNames {
		for _, info := range infos {
			m := a.manners[info.ID]
			if m == nil {
				continue
			}
			for _, effort := range slices.SortedFunc(maps.Keys(m.efforts), cmp.Compare) {
				s := m.efforts[effort].of(measure)
				if s.total == 0 {
					continue
				}
				out = append(out, Distribution{
					Measure: measure, Teacher: info.ID, Effort: effort, Count: s.total,
					P5: *s.quantile(5), P25: *s.quantile(25), P50: *s.quantile(50), P75: *s.quantile(75), P95: *s.quantile(95),
				})
			}
		}
	}
	return out
}
