package answers

import (
	"encoding/json"
	"fmt"
	"time"
)

// A Ledger is what a record tells of its ask's money besides its own request:
// the requests before it that brought nothing, and how the request was bought.
// Most records have none. It is kept as JSON text in [Record.Ledger], so that
// a newer program may add to it.
type Ledger struct {
	// Earlier are the requests of the same ask that were sent since the record
	// before this one, and brought nothing that could be charged. Requests
	// that did are records of their own.
	Earlier []Run `json:"earlier,omitempty"`
	// Unsent: the request never left, as when nobody listens at the address.
	Unsent bool `json:"unsent,omitempty"`
	// None: the record tells of no request of its own, as where an earlier ask
	// had shown that the teacher's key is refused.
	None bool `json:"none,omitempty"`
	// ShareUS is the endpoint's time that the request took up: its own share
	// of every microsecond in which others were in flight beside it. 0: it was
	// not measured.
	ShareUS int64 `json:"share_us,omitempty"`
	// Batch is the id of the batch that the request was part of, and which is
	// charged at the batch price; "" for a request of its own.
	Batch string `json:"batch,omitempty"`
}

// A Run is one or several requests in a row that failed in the same way.
type Run struct {
	Class  string `json:"class"`
	Status int    `json:"status,omitempty"` // HTTP status; 0: no response
	Words  string `json:"words,omitempty"`  // of the first; bounded and redacted by the caller
	Unsent bool   `json:"unsent,omitempty"` // none of them left
	Sent   []Sent `json:"sent"`
	// More requests than Sent lists failed in this way.
	More int `json:"more,omitempty"`
}

// Requests counts the requests of the run.
func (r *Run) Requests() int { return len(r.Sent) + r.More }

// Sent is when one request was sent, in microseconds since 1970, and how long
// it took, in milliseconds.
type Sent [2]int64

// At makes one of a time and a duration.
func At(started time.Time, took time.Duration) Sent {
	return Sent{micros(started), took.Milliseconds()}
}

// Started is when the request was sent.
func (s Sent) Started() time.Time { return time.UnixMicro(s[0]).UTC() }

// Latency is how long it took.
func (s Sent) Latency() time.Duration { return time.Duration(s[1]) * time.Millisecond }

// Text is the ledger as a record holds it: "" where it says nothing.
func (l *Ledger) Text() (string, error) {
	if l == nil || len(l.Earlier) == 0 && !l.Unsent && !l.None && l.ShareUS == 0 && l.Batch == "" {
		return "", nil
	}
	text, err := json.Marshal(l)
	if err != nil {
		return "", fmt.Errorf("write the ledger of an answer: %w", err)
	}
	return string(text), nil
}

// ReadLedger reads what Text wrote.
func ReadLedger(text string) (*Ledger, error) {
	var l Ledger
	if text == "" {
		return &l, nil
	}
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		return nil, fmt.Errorf("read the ledger of an answer: %w", err)
	}
	return &l, nil
}
