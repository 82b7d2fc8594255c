package merge

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
)

// MixVersion changes whenever the same rows could be mixed otherwise.
const MixVersion = "1"

// A Mix is the shares that a dataset is to have. Its zero value keeps all rows.
type Mix struct {
	// Weights are fixed shares by kind; a kind that is not named gets none.
	// Where there are none, a kind's share is as its number of rows, of which
	// no more than Most count (0: all), to the power Alpha.
	Weights map[string]float64
	Most    int64
	Alpha   float64 // 1 keeps the shares, 0 makes them equal
	// Total is how many rows there are to be; 0: as many as there are in these
	// shares.
	Total int64
	// Caps are the largest shares that one value of each dimension may have of
	// the rows that are taken, in the order of Row.Values.
	Caps []float64
}

// A Kind is what there is of one kind of rows, and what the mixture wants.
type Kind struct {
	Name   string
	Rows   int64   // that there are
	Share  float64 // that it is to have
	Target int64   // rows that it is to have
}

// Short is how many of its rows are missing from the start.
func (k Kind) Short() int64 { return max(0, k.Target-k.Rows) }

// Kinds says how many rows of each kind the mixture wants, by name. Targets are
// exact: shares are fractions, and what their whole parts leave goes to the
// largest remainders, of equal ones to the first by name (Hamilton's method).
// Nothing is drawn twice: a kind that has fewer rows than its target stays
// short, and no other takes its place.
func (m *Mix) Kinds(rows map[string]int64) ([]Kind, error) {
	names := slices.Sorted(maps.Keys(rows))
	for name := range m.Weights {
		if _, ok := rows[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	weights := make([]*big.Rat, len(names))
	sum := new(big.Rat)
	for i, name := range names {
		w, err := m.weight(name, rows[name])
		if err != nil {
			return nil, err
		}
		weights[i] = w
		sum.Add(sum, w)
	}
	out := make([]Kind, len(names))
	for i, name := range names {
		out[i] = Kind{Name: name, Rows: rows[name]}
		if sum.Sign() > 0 {
			weights[i].Quo(weights[i], sum)
			out[i].Share, _ = weights[i].Float64()
		}
	}
	total := m.Total
	if total == 0 {
		total = largest(out, weights)
	}
	apportion(out, weights, total)
	return out, nil
}

// weight is a kind's share before all shares are made to sum to 1, exactly as
// it is written in decimals.
func (m *Mix) weight(name string, n int64) (*big.Rat, error) {
	var w float64
	switch {
	case m.Weights != nil:
		w = m.Weights[name]
	default:
		if m.Most > 0 {
			n = min(n, m.Most)
		}
		if n == 0 {
			return new(big.Rat), nil
		}
		switch m.Alpha {
		case 0:
			w = 1
		case 0.5:
			w = math.Sqrt(float64(n))
		case 1:
			w = float64(n)
		default:
			w = math.Pow(float64(n), m.Alpha)
		}
	}
	// Twelve digits: two kinds of processors may differ in the last of a power.
	r, ok := new(big.Rat).SetString(strconv.FormatFloat(w, 'e', 11, 64))
	if !ok || r.Sign() < 0 {
		return nil, fmt.Errorf("mix: the weight %v of %q is no number of 0 or more", w, name)
	}
	return r, nil
}

// largest is the most rows in which every kind that there is has its share.
func largest(kinds []Kind, shares []*big.Rat) int64 {
	var least *big.Rat
	for i, k := range kinds {
		if k.Rows == 0 || shares[i].Sign() == 0 {
			continue
		}
		n := new(big.Rat).SetInt64(k.Rows)
		if n.Quo(n, shares[i]); least == nil || n.Cmp(least) < 0 {
			least = n
		}
	}
	if least == nil {
		return 0
	}
	return new(big.Int).Quo(least.Num(), least.Denom()).Int64()
}

// apportion gives each kind its whole number of total rows.
func apportion(kinds []Kind, shares []*big.Rat, total int64) {
	rest := make([]*big.Rat, len(kinds))
	left := total
	order := make([]int, 0, len(kinds))
	for i := range kinds {
		quota := new(big.Rat).Mul(shares[i], new(big.Rat).SetInt64(total))
		whole := new(big.Int).Quo(quota.Num(), quota.Denom())
		kinds[i].Target = whole.Int64()
		left -= kinds[i].Target
		rest[i] = quota.Sub(quota, new(big.Rat).SetInt(whole))
		if shares[i].Sign() > 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return rest[b].Cmp(rest[a]) })
	for _, i := range order[:min(int64(len(order)), left)] {
		kinds[i].Target++
	}
}

// MaxCaps is how many dimensions may have caps.
const MaxCaps = 5

// A Row is a row of the dataset on its way into the mixture.
type Row struct {
	Key   [16]byte // its place in the order in which rows are taken
	Index int64    // its place among all rows, from 0
	Kind  int32    // index into the kinds
	// Values are the row's of each capped dimension, as numbers from 0. A
	// dimension whose values are too many to count is given as ranks instead:
	// see Ranked.
	Values [MaxCaps]int32
}

// CompareRows orders rows by their keys; of equal ones, which are of the same
// sample, by index.
func CompareRows(a, b *Row) int {
	return cmp.Or(slices.Compare(a.Key[:], b.Key[:]), cmp.Compare(a.Index, b.Index))
}

// A Draw takes rows in the order of their keys, as far as targets and caps
// allow.
type Draw struct {
	Kinds []Kind
	Caps  []float64
	// Ranked tells of each capped dimension that Values hold a row's rank among
	// the rows of its value, from 0 in the order of keys, rather than the value.
	// Then of each value the first rows are taken, and none in the place of one
	// that another cap left out.
	Ranked []bool
}

// What a draw says of rows that it leaves, in the numbers that decide gets; 0
// takes the row, 2 + i is cap i.
const (
	Taken    = 0
	OverKind = 1
	OverCap  = 2
)

// Once draws with caps of base rows, and gives how many rows were taken of each
// kind. rows come in the order of CompareRows. decide may be nil.
func (d *Draw) Once(rows iter.Seq2[Row, error], base int64, decide func(r *Row, what int)) (taken []int64, err error) {
	limits := make([]int64, len(d.Caps))
	used := make([]map[int32]int64, len(d.Caps))
	for i := range d.Caps {
		limits[i] = d.Limit(i, base)
		used[i] = map[int32]int64{}
	}
	taken = make([]int64, len(d.Kinds))
	for row, err := range rows {
		if err != nil {
			return nil, err
		}
		what := d.look(&row, taken, limits, used)
		if what == Taken {
			taken[row.Kind]++
			for i := range d.Caps {
				if !d.Ranked[i] {
					used[i][row.Values[i]]++
				}
			}
		}
		if decide != nil {
			decide(&row, what)
		}
	}
	return taken, nil
}

func (d *Draw) look(row *Row, taken, limits []int64, used []map[int32]int64) int {
	if taken[row.Kind] >= d.Kinds[row.Kind].Target {
		return OverKind
	}
	for i := range d.Caps {
		at := used[i][row.Values[i]]
		if d.Ranked[i] {
			at = int64(row.Values[i])
		}
		if at >= limits[i] {
			return OverCap + i
		}
	}
	return Taken
}

// Limit is how many of base rows one value of a capped dimension may have.
func (d *Draw) Limit(dimension int, base int64) int64 { return portion(d.Caps[dimension], base) }

// portion is how many of base rows a share allows: the whole part, exactly.
func portion(share float64, base int64) int64 {
	r, ok := new(big.Rat).SetString(strconv.FormatFloat(share, 'g', -1, 64))
	if !ok {
		return 0
	}
	r.Mul(r, new(big.Rat).SetInt64(base))
	return new(big.Int).Quo(r.Num(), r.Denom()).Int64()
}

// gentle is how many draws approach the number of rows by what the last one
// took; later ones take a thousandth less, so that they end.
const gentle = 24

// Base finds how many rows the caps are of: the most for which a draw takes so
// many rows or more, as nearly as repeated draws find it. A cap is a share of
// the rows that are taken, which are fewer for it, so that the draw is repeated
// until both agree. 0 means that nothing meets the caps.
func (d *Draw) Base(rows iter.Seq2[Row, error]) (int64, error) {
	var base int64
	for _, k := range d.Kinds {
		base += min(k.Rows, k.Target)
	}
	for n := 0; len(d.Caps) > 0 && base > 0; n++ {
		taken, err := d.Once(rows, base, nil)
		if err != nil {
			return 0, err
		}
		var sum int64
		for _, t := range taken {
			sum += t
		}
		if sum >= base {
			break
		}
		base = sum
		if n >= gentle {
			base -= min(base, base/1000+1)
		}
	}
	return base, nil
}
