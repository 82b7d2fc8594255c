package teachers

import (
	"bytes"
	"encoding/binary"
	"strings"
)

// A sieve tells in one pass whether a response may hold any of many secrets in
// any of their forms. Nearly every answer holds none, and a process may know
// the keys of dozens of teachers.
type sieve struct {
	bits   [sieveBits / 64]uint64
	grams  map[uint32][]gram
	forms  []*secretForms
	inKeys [2]uint64 // ASCII characters of any secret
	beyond bool      // a secret has others
}

const (
	sieveBits = 1 << 16
	gramBytes = 4
	// gramAt is where a form's gram is taken: its first characters are those of
	// many keys, such as "sk-".
	gramAt = 5
)

// A gram is a few bytes of a form, and how far from its beginning they stand.
type gram struct {
	form []byte
	at   int
}

// sieves keeps the sieve of each set of secrets that was looked for.
var sieves = memo[*sieve]{most: 256}

// sieve is that of the secrets that are looked for in answers; nil where there
// are none.
func (s secrets) sieve() *sieve {
	return sieves.get(strings.Join(s, "\x00"), func() *sieve { return newSieve(s) })
}

func newSieve(s secrets) *sieve {
	v := &sieve{grams: map[uint32][]gram{}}
	for _, secret := range s {
		if len(secret) < minSecretInAnswer {
			continue
		}
		f := formsOf(secret)
		v.forms = append(v.forms, f)
		v.add([]byte(f.text))
		for _, form := range f.encoded {
			v.add(form)
		}
		for _, r := range secret {
			if r < 128 {
				v.inKeys[r/64] |= 1 << (r % 64)
			} else {
				v.beyond = true
			}
		}
	}
	if v.forms == nil {
		return nil
	}
	return v
}

func (v *sieve) add(form []byte) {
	at := min(gramAt, len(form)-gramBytes)
	g := binary.LittleEndian.Uint32(form[at:])
	h := sieveHash(g)
	v.bits[h/64] |= 1 << (h % 64)
	v.grams[g] = append(v.grams[g], gram{form, at})
}

// sieveHash is the multiplicative hash of Knuth, The Art of Computer
// Programming, volume 3, section 6.4.
func sieveHash(g uint32) uint32 { return g * 0x9E3779B1 >> 16 }

// holds tells whether b holds one of the secrets.
func (v *sieve) holds(b []byte) bool {
	for i := 0; i+gramBytes <= len(b); i++ {
		g := binary.LittleEndian.Uint32(b[i:])
		if h := sieveHash(g); v.bits[h/64]&(1<<(h%64)) == 0 {
			continue
		}
		for _, one := range v.grams[g] {
			if i >= one.at && bytes.HasPrefix(b[i-one.at:], one.form) {
				return true
			}
		}
	}
	return v.escaped(b)
}

// escaped tells whether b holds a secret with escaped characters: only escapes
// of characters that a secret has are looked at.
func (v *sieve) escaped(b []byte) bool {
	for i := 0; i < len(b); {
		next := bytes.IndexAny(b[i:], `\%`)
		if next < 0 {
			return false
		}
		i += next
		r, n := escapeAt(b[i:])
		if n > 0 && (r >= 128 && v.beyond || r < 128 && v.inKeys[r/64]&(1<<(r%64)) != 0) {
			for _, f := range v.forms {
				if _, n := f.escaped(b, max(0, i-len(f.text)), i+1); n > 0 {
					return true
				}
			}
		}
		i += max(n, 1)
	}
	return false
}
