package dedup

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// A Match is a document that says nearly the same as an earlier one that is
// kept.
type Match struct {
	Order   uint64  // of the document
	Of      uint64  // order of the one that is kept
	Jaccard float64 // of the two, over all their shingles
}

// NearStats say what was compared and found.
type NearStats struct {
	Documents  int64
	Proposed   int64 // pairs that some band proposed, each once
	Compared   int64 // pairs whose similarity was computed; the others were settled before
	Duplicates int64 // documents that say nearly the same as a kept one
}

// Verify computes the similarity of proposed pairs and gives the documents that
// are near-duplicates, by order. Every document is compared with earlier ones
// that are kept, and is a duplicate of the first of them that it is alike; so
// what is dropped always resembles something that is kept.
//
// The parts are those of [Pairs] in the same sequence, pairs what it wrote for
// every band. Memory is a bit for each document.
func Verify(ctx context.Context, o NearOptions, parts []*Part, pairs []io.Reader, found func(Match) error) (NearStats, error) {
	o = o.WithDefaults()
	var stats NearStats
	print, err := fingerprint(o, parts)
	if err != nil {
		return stats, err
	}
	v := verifier{options: o, parts: parts}
	for _, p := range parts {
		v.base = append(v.base, uint64(stats.Documents))
		stats.Documents += p.Documents()
	}
	v.dropped = make([]uint64, stats.Documents/64+1)
	streams := make([]*recordReader, len(pairs))
	for i, r := range pairs {
		streams[i] = newRecordReader(r)
		var head [len(pairsMagic) + 4]byte
		if _, err := io.ReadFull(streams[i].in, head[:]); err != nil {
			return stats, fmt.Errorf("near duplicates: read pairs of band %d: %w", i, err)
		}
		if string(head[:len(pairsMagic)]) != pairsMagic || binary.LittleEndian.Uint32(head[len(pairsMagic):]) != print {
			return stats, fmt.Errorf("near duplicates: pairs of band %d are not of these signatures; make them again", i)
		}
	}
	var last record
	settled := false
	for r, err := range mergeReaders(streams) {
		if err == nil && stats.Proposed&1023 == 0 {
			err = ctx.Err()
		}
		if err != nil {
			return stats, err
		}
		if r == last && stats.Proposed > 0 {
			continue // another band proposed it too
		}
		settled = settled && r[0] == last[0]
		last = r
		stats.Proposed++
		if settled {
			continue
		}
		later, earlier := place(r[2]), place(r[3])
		kept, err := v.kept(earlier)
		if err != nil {
			return stats, err
		}
		if !kept {
			continue
		}
		stats.Compared++
		j, same, err := v.compare(later, earlier)
		if err != nil {
			return stats, err
		}
		if !same {
			continue
		}
		if err := v.drop(later); err != nil {
			return stats, err
		}
		settled = true
		stats.Duplicates++
		if err := found(Match{Order: r[0], Of: r[1], Jaccard: j}); err != nil {
			return stats, err
		}
	}
	return stats, nil
}

type verifier struct {
	options NearOptions
	parts   []*Part
	base    []uint64 // documents of the parts before
	dropped []uint64 // a bit for each document

	later, earlier   features
	at               place // of later
	held             bool
	scratch, another []byte
}

func (v *verifier) compare(later, earlier place) (float64, bool, error) {
	var err error
	if !v.held || v.at != later {
		v.held = false
		if v.scratch, err = v.read(later, &v.later, v.scratch); err != nil {
			return 0, false, err
		}
		v.held, v.at = true, later
	}
	if v.another, err = v.read(earlier, &v.earlier, v.another); err != nil {
		return 0, false, err
	}
	j, same := alike(&v.options, &v.later, &v.earlier)
	return j, same, nil
}

func (v *verifier) read(p place, f *features, scratch []byte) ([]byte, error) {
	part, chunk, row := p.split()
	return v.parts[part].features(chunk, row, f, scratch)
}

// index is the document's number among all. Places come from a file.
func (v *verifier) index(p place) (uint64, error) {
	part, chunk, row := p.split()
	if part >= len(v.parts) || chunk >= len(v.parts[part].chunks) || row >= v.parts[part].chunks[chunk].n {
		return 0, errors.New("near duplicates: a pair names a document that is not there; make the pairs again")
	}
	return v.base[part] + v.parts[part].chunks[chunk].base + uint64(row), nil
}

func (v *verifier) kept(p place) (bool, error) {
	i, err := v.index(p)
	if err != nil {
		return false, err
	}
	return v.dropped[i/64]&(1<<(i%64)) == 0, nil
}

func (v *verifier) drop(p place) error {
	i, err := v.index(p)
	if err != nil {
		return err
	}
	v.dropped[i/64] |= 1 << (i % 64)
	return nil
}
