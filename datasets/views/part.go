package views

import (
	"fmt"

	"github.com/stillhouse-data/stillhouse/datasets/catalog"
)

// Parts are the files of the version that a split is made of, in the order of
// an export: what readers may share out among themselves.
func (s *Stream) Parts(split string) []catalog.FileRef {
	return s.plan.view.Reads.files(s.m, split)
}

// Part is a stream of the rows that one of the split's Parts makes, with
// counts of its own. It is for another goroutine than s if need be.
func (s *Stream) Part(split string, i int) (*Stream, error) {
	parts := s.Parts(split)
	if i < 0 || i >= len(parts) {
		return nil, fmt.Errorf("%w: part %d of split %s; it has %d", ErrNoRows, i, split, len(parts))
	}
	one, p, m := *s, *s.plan, *s.m
	m.Files, p.tally = parts[i:i+1:i+1], tally{}
	one.m, one.plan, one.Split = &m, &p, split
	return &one, nil
}

// Exact tells whether AtMost counts the rows that there will be.
func (s *Stream) Exact() bool {
	o := s.plan.opt
	return !s.plan.view.Reads.some && !o.LeaveOutUnfit && len(s.plan.forbidden) == 0
}
