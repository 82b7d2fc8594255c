package filter

import (
	"maps"
	"math/bits"
	"slices"
)

// Stats count the answers of a build by their length in tokens, for each
// domain and effort. They are the same whatever the order in which answers
// were added and however they were spread over several Stats.
//
// The zero value is ready to use. It is safe for reading by several goroutines.
type Stats struct {
	// Cells count answers by domain, effort and length. A length of more than
	// 1,023 tokens is kept to 10 significant bits, which moves a median by at
	// most 0.2 percent and bounds what a cell holds.
	Cells map[string]map[int64]int64 `json:"cells"`
}

// cellOf names a cell. Domains and efforts hold no slash.
func cellOf(domain, effort string) string { return domain + "/" + effort }

// Measure counts the answer of a candidate, if it has one that came to its own
// end: a cut one says nothing of how long answers are.
func (s *Stats) Measure(in *Input) {
	if (finish{}).Reject(in) != "" {
		return
	}
	if s.Cells == nil {
		s.Cells = map[string]map[int64]int64{}
	}
	key := cellOf(in.Candidate.Domain, in.Candidate.Effort)
	if s.Cells[key] == nil {
		s.Cells[key] = map[int64]int64{}
	}
	s.Cells[key][rounded(in.tokens())]++
}

// rounded keeps the leading 10 bits.
func rounded(n int64) int64 {
	if n <= 0 {
		return 0
	}
	shift := max(0, bits.Len64(uint64(n))-10)
	return n >> shift << shift
}

// Add counts what o counted.
func (s *Stats) Add(o *Stats) {
	for key, lengths := range o.Cells {
		if s.Cells == nil {
			s.Cells = map[string]map[int64]int64{}
		}
		if s.Cells[key] == nil {
			s.Cells[key] = map[int64]int64{}
		}
		for length, n := range lengths {
			s.Cells[key][length] += n
		}
	}
}

// Median is the median length, in tokens, of the answers to the tasks of a
// domain and an effort (the lower one of two), and how many answers it is of.
func (s *Stats) Median(domain, effort string) (tokens, of int64) {
	if s == nil {
		return 0, 0
	}
	lengths := s.Cells[cellOf(domain, effort)]
	for _, n := range lengths {
		of += n
	}
	if of == 0 {
		return 0, 0
	}
	left := (of + 1) / 2
	for _, length := range slices.Sorted(maps.Keys(lengths)) {
		if left -= lengths[length]; left <= 0 {
			return length, of
		}
	}
	return 0, 0
}

// bytesPerToken is what a token of English text is taken for where nobody
// counts better.
const bytesPerToken = 4

// tokens is the length of the completion, reasoning included: as the endpoint
// counted it, else guessed.
func (in *Input) tokens() int64 {
	if n := in.Candidate.CompletionTokens; n != nil {
		return max(0, *n)
	}
	count := in.CountTokens
	if count == nil {
		count = func(text string) int64 { return int64(len(text)+bytesPerToken-1) / bytesPerToken }
	}
	m := in.message()
	n := count(in.reasoning()) + count(in.Candidate.Content())
	for _, call := range m.ToolCalls {
		n += count(call.Name) + count(call.Arguments)
	}
	return n
}
