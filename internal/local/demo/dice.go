package demo

import (
	"encoding/binary"
	"hash/fnv"
)

// dice is SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom
// number generators", 2014). It is written out because prompts and answers
// must not change with the standard library.
type dice uint64

func (d *dice) next() uint64 {
	*d += 0x9e3779b97f4a7c15
	z := uint64(*d)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// between is a whole number from low to high, both included.
func (d *dice) between(low, high int) int {
	return low + int(d.next()%uint64(high-low+1))
}

// share is a number from 0 up to 1.
func (d *dice) share() float64 { return float64(d.next()>>11) / (1 << 53) }

func pick[T any](d *dice, of []T) T { return of[d.between(0, len(of)-1)] }

func shuffle[T any](d *dice, of []T) {
	for i := len(of) - 1; i > 0; i-- {
		j := d.between(0, i)
		of[i], of[j] = of[j], of[i]
	}
}

// diceOf are thrown alike for the same words.
func diceOf(words ...string) dice {
	h := fnv.New64a()
	for _, w := range words {
		var n [8]byte
		binary.LittleEndian.PutUint64(n[:], uint64(len(w)))
		h.Write(n[:])
		h.Write([]byte(w))
	}
	return dice(h.Sum64())
}
