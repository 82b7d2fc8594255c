package dedup

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

const (
	pairsMagic = "shpairs1"

	// In a bucket of a band every document is compared with the first
	// crowdFirst of it; from the crowd-th document on with the first
	// crowdRest alone. Copies of one text are all found so, since the first of
	// them is the one that is kept. A template that is filled with names makes
	// a crowd of texts that are no duplicates, so each crowd is looked at once
	// more in buckets of equal names. What may be missed is a pair within a
	// crowd of more than crowd texts that resemble each other a little less
	// than duplicates do.
	crowdFirst = 64
	crowd      = 1024
	crowdRest  = 4
)

// PairStats say what a band proposed.
type PairStats struct {
	Documents int64 // that share their key with another
	Pairs     int64 // proposed, some of them twice
	Skipped   int64 // pairs of crowds with the same names that were not proposed
	Largest   int64 // documents of the largest bucket
}

// Pairs writes to w the pairs that one band proposes, sorted. Bands can be done
// by different workers; memory is bounded by the options, and what does not
// fit is sorted in temporary files in dir. The parts, which were written with
// the same options, must come in the same sequence to every band and to
// [Verify].
func Pairs(ctx context.Context, o NearOptions, parts []*Part, band int, dir string, w io.Writer) (stats PairStats, err error) {
	o = o.WithDefaults()
	print, err := fingerprint(o, parts)
	if err != nil {
		return stats, err
	}
	if band < 0 || band >= o.Bands {
		return stats, fmt.Errorf("near duplicates: band %d of %d", band, o.Bands)
	}
	// A third of the memory each: which keys come twice, their documents, the pairs.
	twice, err := repeated(ctx, parts, band, o.Memory/3)
	if err != nil {
		return stats, err
	}
	members := newSorter(dir, o.Memory/3)
	defer func() { err = errors.Join(err, members.close()) }()
	if err := eachKey(ctx, parts, band, twice.has, func(m member) error {
		return members.add(record{m.key, m.order, uint64(m.at)})
	}); err != nil {
		return stats, err
	}
	pairs := newSorter(dir, o.Memory/3)
	defer func() { err = errors.Join(err, pairs.close()) }()
	crowds, err := propose(members, pairs, &stats)
	if err != nil {
		return stats, err
	}
	if err := members.close(); err != nil {
		return stats, err
	}
	if len(crowds) > 0 {
		again := newSorter(dir, o.Memory/3)
		defer func() { err = errors.Join(err, again.close()) }()
		if err := eachKey(ctx, parts, band, func(key uint64) bool { return crowds[key] }, func(m member) error {
			return again.add(record{mix(m.key, m.names), m.order, uint64(m.at)})
		}); err != nil {
			return stats, err
		}
		var more PairStats
		if _, err := propose(again, pairs, &more); err != nil {
			return stats, err
		}
		stats.Pairs += more.Pairs
		stats.Skipped = more.Skipped
	}
	out := bufio.NewWriterSize(w, 1<<16)
	b := binary.LittleEndian.AppendUint32([]byte(pairsMagic), print)
	_, _ = out.Write(b)
	for r, err := range pairs.sorted() {
		if err != nil {
			return stats, err
		}
		b = appendWords(b[:0], r[:])
		if _, err := out.Write(b); err != nil {
			return stats, fmt.Errorf("near duplicates: write pairs: %w", err)
		}
	}
	if err := out.Flush(); err != nil {
		return stats, fmt.Errorf("near duplicates: write pairs: %w", err)
	}
	return stats, nil
}

// propose makes pairs of the documents of every bucket, and gives the keys of
// the crowded ones.
func propose(members, pairs *sorter, stats *PairStats) (crowds map[uint64]bool, err error) {
	var bucket []record // the first of it
	var size int64
	count := func() {
		if size > 1 {
			stats.Documents += size
			stats.Largest = max(stats.Largest, size)
		}
	}
	for r, err := range members.sorted() {
		if err != nil {
			return nil, err
		}
		if len(bucket) == 0 || bucket[0][0] != r[0] {
			count()
			bucket, size = append(bucket[:0], r), 1
			continue
		}
		if bucket[0][1] == r[1] && size == 1 || bucket[len(bucket)-1][1] == r[1] {
			return nil, fmt.Errorf("near duplicates: two documents have the order %d; each needs its own", r[1])
		}
		earlier := bucket
		if size >= crowd {
			if size == crowd {
				if crowds == nil {
					crowds = map[uint64]bool{}
				}
				crowds[r[0]] = true
			}
			earlier = bucket[:crowdRest]
		}
		for _, e := range earlier {
			if err := pairs.add(record{r[1], e[1], r[2], e[2]}); err != nil {
				return nil, err
			}
		}
		stats.Pairs += int64(len(earlier))
		stats.Skipped += size - int64(len(earlier))
		size++
		if len(bucket) < crowdFirst {
			bucket = append(bucket, r)
		}
	}
	count()
	return crowds, nil
}

// A member is a document of a bucket.
type member struct {
	key, order uint64
	names      uint64 // digest
	at         place
}

// eachKey visits the documents of a band whose key is wanted.
func eachKey(ctx context.Context, parts []*Part, band int, want func(key uint64) bool, visit func(member) error) error {
	var keys, orders, names []uint64
	var scratch []byte
	for i, p := range parts {
		for j := range p.chunks {
			if err := ctx.Err(); err != nil {
				return err
			}
			c := &p.chunks[j]
			var err error
			if keys, scratch, err = p.column(c, 1+band, keys, scratch); err != nil {
				return err
			}
			orders = orders[:0]
			for row, key := range keys {
				if key == 0 || !want(key) {
					continue
				}
				if len(orders) == 0 {
					if orders, scratch, err = p.column(c, 0, orders, scratch); err != nil {
						return err
					}
					if names, scratch, err = p.column(c, 1+p.bands, names, scratch); err != nil {
						return err
					}
				}
				if err := visit(member{key, orders[row], names[row], placeOf(i, j, row)}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// A repeats tells which keys come twice. It errs on one side: some that come
// once are among them.
type repeats struct {
	once, twice []uint64
	shift       uint
}

func (s *repeats) slot(key uint64) (word, bit uint64) {
	h := mix(key, 0x1b87_3593_cc9e_2d51) >> s.shift
	return h >> 6, 1 << (h & 63)
}

func (s *repeats) add(key uint64) {
	word, bit := s.slot(key)
	if s.once[word]&bit != 0 {
		s.twice[word] |= bit
	}
	s.once[word] |= bit
}

func (s *repeats) has(key uint64) bool {
	word, bit := s.slot(key)
	return s.twice[word]&bit != 0
}

// repeated finds the keys of a band that come twice. Nearly all come once, and
// need not be sorted then.
func repeated(ctx context.Context, parts []*Part, band, memory int) (*repeats, error) {
	var n uint64
	for _, p := range parts {
		n += p.count
	}
	bits := uint(10)
	for 1<<bits < 16*n && 1<<(bits+1) <= 8*uint64(memory)/2 {
		bits++
	}
	s := &repeats{once: make([]uint64, 1<<bits/64), twice: make([]uint64, 1<<bits/64), shift: 64 - bits}
	err := eachKey(ctx, parts, band, func(key uint64) bool { s.add(key); return false }, nil)
	return s, err
}

// fingerprint is the same for the same parts in the same sequence. It holds
// parts and options to each other.
func fingerprint(o NearOptions, parts []*Part) (uint32, error) {
	if err := o.Check(); err != nil {
		return 0, err
	}
	if len(parts) > 1<<19 {
		return 0, fmt.Errorf("near duplicates: %d parts; at most %d", len(parts), 1<<19)
	}
	want := string(headerOf(o))
	var b []byte
	for i, p := range parts {
		if string(p.header[:]) != want {
			return 0, fmt.Errorf("near duplicates: part %d was written with other options; make the signatures again", i)
		}
		b = binary.LittleEndian.AppendUint64(b, p.count)
		b = binary.LittleEndian.AppendUint32(b, p.sum)
	}
	return crc32.Checksum(b, castagnoli), nil
}
