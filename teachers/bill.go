package teachers

import (
	"math"
	"math/bits"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// A Bill is what one request is charged for.
type Bill struct {
	Usage chat.Usage
	Batch bool // the tokens are charged at the batch price
	// Share is the endpoint's time that the request took up: of every moment
	// between sending it and its end, one part of as many as there were
	// requests in flight. Price.GPUHour is charged for it, so that the requests
	// of a worker add up to the time in which it kept the endpoint busy, and
	// one that is alone pays for all of it.
	Share time.Duration
}

// CostOf is the bill at this price, in micro-dollars: the tokens as [Price.Cost]
// counts them, less the discount of a batch, and the endpoint's time. Each of
// the two is rounded half up.
func (p *Price) CostOf(b Bill) int64 {
	cost := p.Cost(b.Usage)
	if b.Batch && p.BatchDiscount > 0 {
		cost = scaled(uint64(cost), uint64(math.Round((1-min(p.BatchDiscount, 1))*priceUnits)), priceUnits)
	}
	if p.GPUHour > 0 && b.Share > 0 {
		// Micro-dollars an hour times microseconds.
		hour := scaled(uint64(b.Share.Microseconds()), units(p.GPUHour), uint64(time.Hour.Microseconds()))
		if cost > math.MaxInt64-hour {
			return math.MaxInt64
		}
		cost += hour
	}
	return cost
}

// scaled is n*by/of, rounded half up; it saturates instead of overflowing.
func scaled(n, by, of uint64) int64 {
	hi, lo := bits.Mul64(n, by)
	lo, carry := bits.Add64(lo, of/2, 0)
	if hi += carry; hi >= of {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, of)
	return int64(min(q, math.MaxInt64))
}

// ShareOf is the share of a request whose own was not measured: its whole time
// over as many requests as may be in flight at once.
func ShareOf(latency time.Duration, concurrency int) time.Duration {
	return latency / time.Duration(max(concurrency, 1))
}
