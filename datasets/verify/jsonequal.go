package verify

import (
	"encoding/json"
	"math/big"
	"strings"
)

// An equality compares JSON values as readJSON gives them: numbers by value,
// objects by their members.
type equality struct {
	unordered bool // lists are equal in any order
	fold      bool // upper case is lower case
}

func (e equality) values(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		b, ok := b.(json.Number)
		return ok && sameNumber(a, b)
	case string:
		b, ok := b.(string)
		return ok && (a == b || e.fold && strings.EqualFold(a, b))
	case []any:
		b, ok := b.([]any)
		return ok && e.lists(a, b)
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for k, v := range a {
			other, ok := b[k]
			if !ok || !e.values(v, other) {
				return false
			}
		}
		return true
	}
	return a == b // null, true, false
}

// maxUnordered bounds a list that is compared in any order: every pair of its
// items may have to be.
const maxUnordered = 1000

func (e equality) lists(a, b []any) bool {
	if len(a) != len(b) {
		return false
	}
	if !e.unordered || len(a) > maxUnordered {
		for i := range a {
			if !e.values(a[i], b[i]) {
				return false
			}
		}
		return true
	}
	// Equality is an equivalence, so that the first that fits will do.
	taken := make([]bool, len(b))
	for i := range a {
		at := -1
		for k := range b {
			if !taken[k] && e.values(a[i], b[k]) {
				at = k
				break
			}
		}
		if at < 0 {
			return false
		}
		taken[at] = true
	}
	return true
}

// sameNumber compares by value; numbersBounded has seen both.
func sameNumber(a, b json.Number) bool {
	if a == b {
		return true
	}
	x, okX := new(big.Rat).SetString(string(a))
	y, okY := new(big.Rat).SetString(string(b))
	return okX && okY && x.Cmp(y) == 0
}
