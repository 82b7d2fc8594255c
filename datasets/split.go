package datasets

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"strconv"
)

// SplitTrain is the split of everything where a recipe declares none.
const SplitTrain = "train"

// Assign gives the split of a task: by its group, or by its prompt where it
// has none, so that all tasks of a group and of a prompt share a split. splits
// holds a positive share for each name; the shares need not add up to 1, and
// what is not positive takes no part.
//
// Each split draws an exponential time of rate share from SHA-256 over seed,
// group or prompt, and split; the earliest wins (weighted rendezvous hashing:
// Thaler and Ravishankar 1998; Schindelhauer and Schomaker 2005). So the draw
// depends on nothing else in the dataset, and when a split's share grows
// against the others', tasks move into it alone and none moves between the
// others.
func Assign(splits map[string]float64, seed int64, group, promptID string) string {
	key := "prompt\x00" + promptID
	if group != "" {
		key = "group\x00" + group
	}
	best, bestTime := SplitTrain, math.Inf(1)
	for name, share := range splits {
		if !(share > 0) || math.IsInf(share, 0) {
			continue
		}
		t := -math.Log(draw(seed, key, name)) / share
		if t < bestTime || t == bestTime && name < best {
			best, bestTime = name, t
		}
	}
	return best
}

// draw is uniform over the open interval (0, 1), in steps of 2^-53.
func draw(seed int64, key, split string) float64 {
	h := sha256.New()
	h.Write([]byte(strconv.FormatInt(seed, 10)))
	for _, s := range []string{key, split} {
		h.Write([]byte{0})
		h.Write([]byte(s))
	}
	n := binary.BigEndian.Uint64(h.Sum(nil)) >> 11
	return (float64(n) + 0.5) / (1 << 53)
}
