package activities

import "slices"

// A batch is the part of a shard that one ask activity takes.
type batch struct {
	shard      int  // index in Plan.Shards
	start, end int  // tasks within the shard
	through    int  // shards below are done once this batch and all before it are
	probe      bool // of the tasks of the teacher's probe
}

// batches lists a teacher's batches, in the order of the shards.
func (p *Plan) batches(teacher string) []batch {
	var out []batch
	shards := len(p.Shards)
	for i, s := range p.Shards {
		if !slices.Contains(p.Cells[s.Cell].Teachers, teacher) {
			continue
		}
		for start := 0; start < s.Tasks; {
			end := s.cut(start, p.BatchTasks[teacher])
			out = append(out, batch{shard: i, start: start, end: end})
			start = end
		}
	}
	for i := range out {
		if out[i].through = len(p.Shards); i+1 < len(out) {
			out[i].through = out[i+1].shard
		}
	}
	if p := p.probe(teacher); p != nil {
		// After everything else: nothing waits for it but the seal.
		for start := 0; start < p.Shard.Tasks; start += BatchAsks {
			out = append(out, batch{start: start, end: min(start+BatchAsks, p.Shard.Tasks), through: shards, probe: true})
		}
	}
	return out
}

// probe is what a teacher is asked once more; nil for nothing.
func (p *Plan) probe(teacher string) *DriftProbe { return p.Anew[teacher].Probe }

// cut is where a batch of at most so many tasks ends that begins at start. In a
// shard whose tasks are ordered by what they share it is the last place in the
// batch's second half where neighbours share least: one worker has the whole of
// a group then, where the group is no larger than a batch.
func (s *Shard) cut(start, most int) int {
	end := min(start+most, s.Tasks)
	if end == s.Tasks || len(s.Shared) != s.Tasks {
		return end
	}
	for i := end - 1; i > start+most/2; i-- {
		if s.Shared[i] < s.Shared[end] {
			end = i
		}
	}
	return end
}

// asks is how many asks go to a teacher.
func (p *Plan) asks(teacher string) int64 {
	var n int64
	for _, c := range p.Cells {
		if slices.Contains(c.Teachers, teacher) {
			n += c.Tasks * int64(p.Samples)
		}
	}
	if p := p.probe(teacher); p != nil {
		n += int64(p.Shard.Tasks)
	}
	return n
}
