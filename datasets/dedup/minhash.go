package dedup

import (
	"errors"
	"fmt"
	"math"
)

// Defaults of NearOptions.
const (
	DefaultJaccard       = 0.8
	DefaultBands         = 20
	DefaultRows          = 6
	DefaultShingle       = 5 // words, as FineWeb's (huggingface/datatrove, src/datatrove/pipeline/dedup/minhash.py)
	DefaultMaxCluster    = 1000
	DefaultMaxSourceLoss = 0.5
	DefaultMemory        = 64 << 20
)

// NearOptions say what near-duplicates are and how they are looked for. Zero
// values are the defaults.
type NearOptions struct {
	// Jaccard is the least similarity of near-duplicates, from 0.3 to 1.
	Jaccard float64
	// Bands and Rows are those of the signature, which has Bands times Rows
	// hashes. See Recall. 14 and 8 are FineWeb's.
	Bands, Rows int
	// Shingle is how many words, or characters of scripts without spaces, make
	// a shingle. A shorter text is one shingle.
	Shingle int
	// AnyValues drops the rule that near-duplicates hold the same values: texts
	// that differ in a number alone are near-duplicates then.
	AnyValues bool
	// Memory bounds the bytes that sorting holds, by stage.
	Memory int
}

// WithDefaults replaces zero values.
func (o NearOptions) WithDefaults() NearOptions {
	set := func(p *int, def int) {
		if *p == 0 {
			*p = def
		}
	}
	if o.Jaccard == 0 {
		o.Jaccard = DefaultJaccard
	}
	set(&o.Bands, DefaultBands)
	set(&o.Rows, DefaultRows)
	set(&o.Shingle, DefaultShingle)
	set(&o.Memory, DefaultMemory)
	return o
}

// Check says what of the options, defaults filled in, cannot be.
func (o NearOptions) Check() error {
	var errs []error
	bound := func(name string, n, low, high int) {
		if n < low || n > high {
			errs = append(errs, fmt.Errorf("near duplicates: %s is %d; write %d to %d", name, n, low, high))
		}
	}
	if !(o.Jaccard >= 0.3 && o.Jaccard <= 1) {
		errs = append(errs, fmt.Errorf("near duplicates: jaccard is %v; write 0.3 to 1", o.Jaccard))
	}
	bound("bands", o.Bands, 1, 256)
	bound("rows", o.Rows, 1, 64)
	bound("shingle", o.Shingle, 1, 32)
	bound("memory", o.Memory, 1<<16, math.MaxInt)
	return errors.Join(errs...)
}

// Recall is the share of pairs of similarity j that share a band and so are
// compared: 1-(1-j^rows)^bands (Leskovec, Rajaraman, Ullman: Mining of Massive
// Datasets, 3.4.2). At 0.8 it is 0.924 for 14 bands of 8 rows and 0.998 for 20
// of 6.
func Recall(j float64, bands, rows int) float64 {
	return 1 - math.Pow(1-math.Pow(j, float64(rows)), float64(bands))
}

// A minhasher makes signatures: of many fixed permutations of all shingles the
// least of the document's.
type minhasher struct {
	rows    int
	factors []uint64
	terms   []uint64
	least   []uint64
}

func newMinhasher(o NearOptions) *minhasher {
	n := o.Bands * o.Rows
	m := &minhasher{rows: o.Rows, factors: make([]uint64, n), terms: make([]uint64, n), least: make([]uint64, n)}
	state := uint64(0x5374_696c_6c68_6f75) // fixed: signatures of all parts and versions must be the same
	for i := range n {
		m.factors[i] = next(&state) | 1
		m.terms[i] = next(&state)
	}
	return m
}

// next is a step of splitmix64.
func next(state *uint64) uint64 {
	*state += 0x9e37_79b9_7f4a_7c15
	z := *state
	z = (z ^ z>>30) * 0xbf58_476d_1ce4_e5b9
	z = (z ^ z>>27) * 0x94d0_49bb_1331_11eb
	return z ^ z>>31
}

// keys appends a key for each band. Equal keys of a band mean equal rows of it
// and equal values and context. A document without shingles has none: its keys
// are 0, which no other key is.
func (m *minhasher) keys(dst []uint64, f *features) []uint64 {
	bands := len(m.factors) / m.rows
	if len(f.shingles) == 0 {
		for range bands {
			dst = append(dst, 0)
		}
		return dst
	}
	m.sign(f.shingles)
	for b := range bands {
		h := f.fixed ^ uint64(b)
		for _, v := range m.least[b*m.rows : (b+1)*m.rows] {
			h = mix(h^v, 0x9e37_79b9_7f4a_7c15)
		}
		dst = append(dst, max(h, 1))
	}
	return dst
}

// sign fills least. Four permutations at a time stay in registers while the
// shingles, which fit a cache, go by.
func (m *minhasher) sign(shingles []uint64) {
	const block = 512
	for i := range m.least {
		m.least[i] = math.MaxUint64
	}
	for len(shingles) > 0 {
		part := shingles[:min(block, len(shingles))]
		shingles = shingles[len(part):]
		i := 0
		for ; i+4 <= len(m.least); i += 4 {
			f, t, l := m.factors[i:i+4:i+4], m.terms[i:i+4:i+4], m.least[i:i+4:i+4]
			f0, f1, f2, f3 := f[0], f[1], f[2], f[3]
			t0, t1, t2, t3 := t[0], t[1], t[2], t[3]
			l0, l1, l2, l3 := l[0], l[1], l[2], l[3]
			for _, s := range part {
				l0 = min(l0, s*f0+t0)
				l1 = min(l1, s*f1+t1)
				l2 = min(l2, s*f2+t2)
				l3 = min(l3, s*f3+t3)
			}
			l[0], l[1], l[2], l[3] = l0, l1, l2, l3
		}
		for ; i < len(m.least); i++ {
			for _, s := range part {
				m.least[i] = min(m.least[i], s*m.factors[i]+m.terms[i])
			}
		}
	}
}

// alike tells whether two documents are near-duplicates, and their similarity.
func alike(o *NearOptions, a, b *features) (float64, bool) {
	if a.fixed != b.fixed || len(a.shingles) == 0 || len(b.shingles) == 0 {
		return 0, false
	}
	j := jaccard(a.shingles, b.shingles)
	if j < o.Jaccard {
		return j, false
	}
	return j, o.AnyValues || within(a.names, b.words) && within(b.names, a.words)
}

// jaccard is the share of the union of two sorted sets that both have.
func jaccard(a, b []uint64) float64 {
	both, i, j := 0, 0, 0
	for i < len(a) && j < len(b) {
		switch {
		case a[i] == b[j]:
			both++
			i++
			j++
		case a[i] < b[j]:
			i++
		default:
			j++
		}
	}
	return float64(both) / float64(len(a)+len(b)-both)
}

// within tells whether all of a, sorted, are in b, sorted.
func within(a, b []uint32) bool {
	j := 0
	for _, v := range a {
		for j < len(b) && b[j] < v {
			j++
		}
		if j == len(b) || b[j] != v {
			return false
		}
	}
	return true
}
