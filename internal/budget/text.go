package budget

import (
	"encoding/json"
	"fmt"
)

// A shortWallet is a Wallet as text. The book of many workers is one payload, so
// its keys are short, and a pocket is [place, granted, spent], where place is
// that of its teacher among those with limits, -1 for the pocket of all others,
// and the id of a teacher that has no limit any more.
type shortWallet struct {
	Worker  string   `json:"w"`
	Seq     int64    `json:"q"`
	Seen    int64    `json:"t"`
	Lost    int64    `json:"x,omitempty"`
	Base    int64    `json:"b,omitempty"`
	Pockets [][3]any `json:"k,omitempty"`
}

// plainBook is a Book without its methods.
type plainBook Book

type textBook struct {
	plainBook
	Wallets []shortWallet `json:"wallets,omitempty"`
}

// MarshalJSON writes the book with its wallets shortened.
func (b Book) MarshalJSON() ([]byte, error) {
	places := map[string]int{"": -1}
	for i, t := range b.Limits.Teachers {
		places[t.Teacher] = i
	}
	out := textBook{plainBook: plainBook(b)}
	for _, w := range b.Wallets {
		short := shortWallet{Worker: w.Worker, Seq: w.Seq, Seen: w.Seen, Lost: w.Lost, Base: w.Base}
		for _, p := range w.Pockets {
			var place any = p.Pocket
			if i, known := places[p.Pocket]; known {
				place = i
			}
			short.Pockets = append(short.Pockets, [3]any{place, p.Granted, p.Spent})
		}
		out.Wallets = append(out.Wallets, short)
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (b *Book) UnmarshalJSON(text []byte) error {
	var in struct {
		plainBook
		Wallets []struct {
			shortWallet
			Pockets [][3]json.RawMessage `json:"k"`
		} `json:"wallets"`
	}
	if err := json.Unmarshal(text, &in); err != nil {
		return err
	}
	*b = Book(in.plainBook)
	for _, short := range in.Wallets {
		w := Wallet{Worker: short.Worker, Seq: short.Seq, Seen: short.Seen, Lost: short.Lost, Base: short.Base}
		for _, p := range short.Pockets {
			lent, err := b.readLent(p)
			if err != nil {
				return fmt.Errorf("wallet %s: %w", w.Worker, err)
			}
			w.Pockets = append(w.Pockets, lent)
		}
		b.Wallets = append(b.Wallets, w)
	}
	return nil
}

func (b *Book) readLent(p [3]json.RawMessage) (l Lent, err error) {
	if len(p[0]) > 0 && p[0][0] == '"' {
		err = json.Unmarshal(p[0], &l.Pocket)
	} else {
		var place int
		err = json.Unmarshal(p[0], &place)
		switch {
		case place >= len(b.Limits.Teachers) || place < -1:
			return l, fmt.Errorf("no teacher has place %d", place)
		case place >= 0:
			l.Pocket = b.Limits.Teachers[place].Teacher
		}
	}
	if err == nil {
		err = json.Unmarshal(p[1], &l.Granted)
	}
	if err == nil {
		err = json.Unmarshal(p[2], &l.Spent)
	}
	return l, err
}

// size bounds the book as text, however large its amounts become. It is counted
// and not written, because an authority's code must do the same in every replay,
// and a checker of that cannot see it of a JSON encoder.
func (b *Book) size() int {
	const number = 20 // digits of an int64 and a comma
	const names = 160 // of the book's own keys, and its numbers
	n := names + 8*number
	for _, t := range b.Limits.Teachers {
		n += quoted(t.Teacher) + number + len(`{"teacher":,"micros":},`)
	}
	for _, j := range b.Jobs {
		n += quoted(j.ID) + quoted(j.Build) + number + len(`{"id":,"build":,"opened":},`)
	}
	for _, g := range b.Gone {
		n += quoted(g.Pocket) + number + len(`{"p":,"m":},`)
	}
	const amount = 16 // digits of MaxUSD in micro-dollars, and a comma
	for _, w := range b.Wallets {
		n += quoted(w.Worker) + 4*amount + len(`{"w":,"q":,"t":,"x":,"b":,"k":[]},`)
		for _, p := range w.Pockets {
			place := len("39,")
			if _, known := b.Limits.Teacher(p.Pocket); !known && p.Pocket != "" {
				place = quoted(p.Pocket) + 1
			}
			n += place + 2*amount + len("[],")
		}
	}
	return n
}

// quoted bounds a text as a JSON string.
func quoted(s string) int {
	n := 2
	for i := range len(s) {
		switch b := s[i]; {
		case b < 0x20, b == '"', b == '\\', b == '<', b == '>', b == '&':
			n += 6 // \u003c
		case b >= 0x80:
			n += 2 // U+2028 has three bytes, and six as \u2028
		default:
			n++
		}
	}
	return n
}
