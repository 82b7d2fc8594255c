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
