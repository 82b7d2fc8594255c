package teachers

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"math/bits"
	"strconv"

	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// A Price is a price list entry, in US dollars per million tokens.
type Price struct {
	Input       float64
	CachedInput float64 // prompt tokens read from a cache; 0 means the price of Input
	CacheWrite  float64 // prompt tokens written to a cache; 0 means the price of Input
	Output      float64 // reasoning tokens included
	// BatchDiscount is the part of the token prices that a batch API takes
	// off: 0.5 halves them.
	BatchDiscount float64
	// GPUHour is what an hour of an own endpoint costs, in dollars; see
	// [Bill]. Most endpoints have either it or token prices.
	GPUHour float64
	AsOf    string // date of the price list
	Source  string
}

// ID is stable for equal prices: the hex of the first 8 bytes of SHA-256 over
// all fields (16 characters).
func (p *Price) ID() string {
	buf := []byte(`{"as_of":`)
	buf = chat.AppendString(buf, p.AsOf)
	for _, f := range []struct {
		name  string
		value float64
	}{{"cache_write", p.CacheWrite}, {"cached_input", p.CachedInput}, {"input", p.Input}, {"output", p.Output}} {
		buf = append(buf, `,"`+f.name+`":`...)
		buf = strconv.AppendFloat(buf, f.value, 'g', -1, 64)
	}
	for _, f := range []struct {
		name  string
		value float64
	}{{"batch_discount", p.BatchDiscount}, {"gpu_hour", p.GPUHour}} {
		if f.value != 0 { // so that the ids of prices without them stay
			buf = append(buf, `,"`+f.name+`":`...)
			buf = strconv.AppendFloat(buf, f.value, 'g', -1, 64)
		}
	}
	buf = chat.AppendString(append(buf, `,"source":`...), p.Source)
	sum := sha256.Sum256(append(buf, '}'))
	return hex.EncodeToString(sum[:8])
}

// Validate tells which field is no price: negative, infinite, or above a
// million dollars per million tokens.
func (p *Price) Validate() error {
	for _, f := range []struct {
		name  string
		value float64
	}{{"input", p.Input}, {"cached_input", p.CachedInput}, {"cache_write", p.CacheWrite}, {"output", p.Output}} {
		if !(f.value >= 0 && f.value <= maxPrice) {
			return fmt.Errorf("price.%s: %v is not between 0 and %d dollars per million tokens", f.name, f.value, int64(maxPrice))
		}
	}
	if !(p.BatchDiscount >= 0 && p.BatchDiscount <= 1) {
		return fmt.Errorf("price.batch_discount: %v is not between 0 and 1; 0.5 halves the price", p.BatchDiscount)
	}
	if !(p.GPUHour >= 0 && p.GPUHour <= maxPrice) {
		return fmt.Errorf("price.gpu_hour: %v is not between 0 and %d dollars an hour", p.GPUHour, int64(maxPrice))
	}
	return nil
}

const (
	maxPrice = 1e6 // dollars per million tokens
	// priceUnits is how many units of our integer arithmetic are one dollar
	// per million tokens, which is one micro-dollar per token.
	priceUnits = 1_000_000
)

// Cost is what the tokens of one answer cost, in micro-dollars. Each price is
// rounded to a millionth of a dollar per million tokens, the products are
// exact, and their sum is rounded half up. It saturates instead of
// overflowing.
func (p *Price) Cost(u chat.Usage) int64 {
	cached := clamp(u.CachedTokens, 0, u.PromptTokens)
	written := clamp(u.CacheWriteTokens, 0, u.PromptTokens-cached)
	var hi, lo uint64
	for _, part := range []struct {
		tokens int64
		price  float64
	}{
		{u.PromptTokens - cached - written, p.Input},
		{cached, orInput(p.CachedInput, p.Input)},
		{written, orInput(p.CacheWrite, p.Input)},
		{u.CompletionTokens, p.Output},
	} {
		h, l := bits.Mul64(uint64(max(part.tokens, 0)), units(part.price))
		var carry uint64
		lo, carry = bits.Add64(lo, l, 0)
		hi, _ = bits.Add64(hi, h, carry)
	}
	var carry uint64
	lo, carry = bits.Add64(lo, priceUnits/2, 0)
	hi += carry
	if hi >= priceUnits {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, priceUnits)
	return int64(min(q, math.MaxInt64))
}

func units(price float64) uint64 {
	if !(price > 0) {
		return 0
	}
	return uint64(math.Round(min(price, maxPrice) * priceUnits))
}

func orInput(price, input float64) float64 {
	if price == 0 {
		return input
	}
	return price
}

func clamp(v, low, high int64) int64 { return max(low, min(v, max(low, high))) }

// EstimateTokens guesses the tokens of a text from its bytes, four to a token
// as in English prose. Plans use it; nothing is billed or cut by it.
func EstimateTokens(bytes int) int64 { return (int64(bytes) + 3) / 4 }
