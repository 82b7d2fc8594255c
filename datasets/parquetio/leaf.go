package parquetio

import (
	"fmt"
	"math"
	"math/big"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// leafValue gives a value as JSON would have it; see Maps.
func leafValue(t parquet.Type, v parquet.Value) (any, error) {
	switch l := logical(t).(type) {
	case *format.DateType:
		return time.Unix(int64(v.Int32())*24*60*60, 0).UTC().Format(time.DateOnly), nil
	case *format.TimestampType:
		at := timestamp(v.Int64(), &l.Unit)
		if l.IsAdjustedToUTC {
			return at.Format(time.RFC3339Nano), nil
		}
		return at.Format("2006-01-02T15:04:05.999999999"), nil
	case *format.TimeType:
		n := v.Int64()
		if t.Kind() == parquet.Int32 {
			n = int64(v.Int32())
		}
		return timestamp(n, &l.Unit).Format("15:04:05.999999999"), nil
	case *format.DecimalType:
		return decimal(t, v, int(l.Scale)), nil
	case *format.UUIDType:
		if b := v.ByteArray(); len(b) == 16 {
			return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:]), nil
		}
	case *format.IntType:
		if !l.IsSigned {
			return unsigned(t, v), nil
		}
	}
	switch t.Kind() {
	case parquet.Boolean:
		return v.Boolean(), nil
	case parquet.Int32:
		return int64(v.Int32()), nil
	case parquet.Int64:
		return v.Int64(), nil
	case parquet.Int96: // nanoseconds of the day, then the Julian day
		i := v.Int96()
		nanos := int64(i[0]) | int64(i[1])<<32
		const unixEpoch = 2440588
		return time.Unix((int64(i[2])-unixEpoch)*24*60*60, nanos).UTC().Format(time.RFC3339Nano), nil
	case parquet.Float:
		return float64(v.Float()), nil
	case parquet.Double:
		return v.Double(), nil
	default:
		return text(v.ByteArray()), nil
	}
}

func timestamp(n int64, unit *format.TimeUnit) time.Time {
	switch unit.Value.(type) {
	case *format.MilliSeconds:
		return time.UnixMilli(n).UTC()
	case *format.MicroSeconds:
		return time.UnixMicro(n).UTC()
	default:
		return time.Unix(n/1e9, n%1e9).UTC()
	}
}

func unsigned(t parquet.Type, v parquet.Value) any {
	if t.Kind() == parquet.Int32 {
		return int64(uint32(v.Int32()))
	}
	if u := v.Uint64(); u > math.MaxInt64 {
		return u
	}
	return v.Int64()
}

// decimal writes an unscaled integer with its point, digit for digit.
func decimal(t parquet.Type, v parquet.Value, scale int) string {
	n := new(big.Int)
	switch t.Kind() {
	case parquet.Int32:
		n.SetInt64(int64(v.Int32()))
	case parquet.Int64:
		n.SetInt64(v.Int64())
	default: // two's complement, most significant byte first
		b := v.ByteArray()
		n.SetBytes(b)
		if len(b) > 0 && b[0]&0x80 != 0 {
			n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(len(b)*8)))
		}
	}
	if scale <= 0 || scale > 1000 {
		return n.String()
	}
	sign, digits := "", n.String()
	if n.Sign() < 0 {
		sign, digits = "-", digits[1:]
	}
	if len(digits) <= scale {
		digits = strings.Repeat("0", scale-len(digits)+1) + digits
	}
	return sign + digits[:len(digits)-scale] + "." + digits[len(digits)-scale:]
}
