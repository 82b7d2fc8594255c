package recipe

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// A ByteSize is a number of bytes, written such as 64MiB, 10MB or 4096.
type ByteSize int64

var byteUnits = []struct {
	name string
	size int64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1},
}

// ParseByteSize reads a whole number with an optional unit: B, KB, MB, GB, TB
// (powers of 1,000) or KiB, MiB, GiB, TiB (powers of 1,024).
func ParseByteSize(s string) (ByteSize, error) {
	number, factor := strings.TrimSpace(s), int64(1)
	for _, u := range byteUnits {
		if n, ok := strings.CutSuffix(number, u.name); ok {
			number, factor = strings.TrimSpace(n), u.size
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is no size", s)
	}
	if n < 0 || n > math.MaxInt64/factor {
		return 0, fmt.Errorf("%q is out of range", s)
	}
	return ByteSize(n * factor), nil
}

// String gives the size in the largest unit that holds it as a whole number.
func (b ByteSize) String() string {
	for i := 3; i >= 0; i-- {
		if u := byteUnits[i]; b != 0 && int64(b)%u.size == 0 {
			return strconv.FormatInt(int64(b)/u.size, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(b), 10)
}

// A Date is a day, written 2026-11-01; "" where absent.
type Date string

// longestDuration keeps sums of durations far from overflow.
const longestDuration = 366 * 24 * time.Hour

var durationDays = regexp.MustCompile(`^([0-9]{1,4})d(.*)$`)

// ParseDuration reads Go's durations (90s, 2m, 1h30m) and whole days before
// them (7d, 1d12h).
func ParseDuration(s string) (time.Duration, error) {
	rest, days := s, time.Duration(0)
	if m := durationDays.FindStringSubmatch(s); m != nil {
		n, _ := strconv.Atoi(m[1]) // at most four digits
		days, rest = time.Duration(n)*24*time.Hour, m[2]
		if rest == "" {
			rest = "0s"
		}
	}
	d, err := time.ParseDuration(rest)
	if err != nil {
		return 0, fmt.Errorf("%q is no duration", s)
	}
	if d += days; d < 0 || d > longestDuration {
		return 0, fmt.Errorf("%q is out of range", s)
	}
	return d, nil
}
