// Package batches keeps what goes through batch APIs: which asks are in which
// file of requests, and what became of each file. It promises that no ask is
// submitted twice while the first submission can still bring an answer, whoever
// crashes when, and however many builds want the same answers.
//
// A batch is named by its content: [Key] is a digest over the ids of its asks.
// Its record is written before its submission and after it, each time by
// compare-and-swap, so that a step that runs again finds what the step before
// it has done; where it died in between, the endpoint is asked. The open
// batches of an endpoint are listed in one object that moves by
// compare-and-swap as well: who makes a batch first looks at all that are open,
// and an ask that is in one of them goes into no other.
//
// Keys under the store's prefix:
//
//	batches/<endpoint>/open.json                 moved with If-Match
//	batches/<endpoint>/<key>/state.json          moved with If-Match; stays
//	batches/<endpoint>/<key>/asks.jsonl.zst      until it is collected
//	batches/<endpoint>/<key>/requests.jsonl.zst  until it is collected
//	batches/<endpoint>/<key>/refused.jsonl       rows that did not belong
package batches

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"time"
)

// States of a batch.
const (
	Prepared   = "prepared"   // nothing of it is at the endpoint
	Uploaded   = "uploaded"   // its file is there, or needs not be; nothing is paid for
	Submitting = "submitting" // it may have been submitted
	Submitted  = "submitted"  // it was
	Collected  = "collected"  // all that it brought is in the answer store
	Dropped    = "dropped"    // it was never submitted, and will not be
)

// A Record says what became of a batch.
type Record struct {
	Key      string `json:"key"`
	Endpoint string `json:"endpoint"` // identity, 32 hex digits
	API      string `json:"api"`
	Teacher  string `json:"teacher"`
	Model    string `json:"model"`
	// Account names where the API key comes from, never the key: a batch can
	// be looked at only with the account that submitted it.
	Account string    `json:"account,omitempty"`
	Dataset string    `json:"dataset"`
	BuildID string    `json:"build_id"` // that made it
	Made    time.Time `json:"made,omitzero"`
	Round   int       `json:"round"` // how many batches of exactly these asks came before
	Rows    int       `json:"rows"`
	Bytes   int64     `json:"bytes"` // of the file of requests
	// Reserved is what a budget holds for it, in micro-dollars.
	Reserved int64 `json:"reserved_micros,omitempty"`
	// Purse is the account of the budget that holds it; 0: it is not known.
	Purse int64 `json:"purse,omitempty"`

	State     string    `json:"state"`
	File      string    `json:"file,omitempty"`     // id of the uploaded file
	Try       string    `json:"try,omitempty"`      // random: of the submission under way
	Since     time.Time `json:"since,omitzero"`     // when that was about to be sent
	Batch     string    `json:"batch,omitempty"`    // id at the endpoint
	Unproved  bool      `json:"unproved,omitempty"` // the id was found by row count alone
	Foreign   []string  `json:"foreign,omitempty"`  // ids that were found so, and were not it
	Submitted time.Time `json:"submitted,omitzero"` // by our clock
	Ended     string    `json:"ended,omitempty"`    // how, in the words of teachers.Batch
	Collected time.Time `json:"collected,omitzero"`
	By        string    `json:"by,omitempty"` // build that collected it
	Outcome   *Outcome  `json:"outcome,omitempty"`
}

// An Outcome counts what a batch brought.
type Outcome struct {
	Answered         int64 `json:"answered"`
	Failed           int64 `json:"failed"`
	Missing          int64 `json:"missing"` // rows that no file mentions
	Refused          int64 `json:"refused"` // rows that did not belong, or of another model
	Duplicates       int64 `json:"duplicates"`
	PromptTokens     int64 `json:"prompt_tokens"`
	CachedTokens     int64 `json:"cached_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`
	CostMicros       int64 `json:"cost_micros"`
	Unpriced         int64 `json:"unpriced"`
}

// Unsubmitted tells that nothing of the batch can have been paid for.
func (r *Record) Unsubmitted() bool { return r.State == Prepared || r.State == Uploaded }

// Closed tells that nothing more comes of it.
func (r *Record) Closed() bool { return r.State == Collected || r.State == Dropped }

// Key names a batch: 32 hex digits of SHA-256 over the endpoint, the API, the
// sorted ids of its asks, and how many batches of exactly these asks came
// before.
func Key(endpoint, api string, round int, ids []string) string {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	h := sha256.New()
	fmt.Fprintf(h, "stillhouse batch 1\n%s\n%s\n%d\n", endpoint, api, round)
	for _, id := range ids {
		_, _ = io.WriteString(h, id) // a hash takes everything
		_, _ = io.WriteString(h, "\n")
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Parts of a custom id: the ask, the digest of its body, the batch.
const (
	idDigits   = 32
	bodyDigits = 16
	keyDigits  = 8
	// CustomIDLength is below what every API allows (64).
	CustomIDLength = idDigits + 1 + bodyDigits + 1 + keyDigits
)

// CustomID names a row within its batch: the ask, what its prompt's digest is,
// and which batch it is of, so that an answer which belongs elsewhere shows.
func CustomID(askID, bodyDigest, key string) string {
	return askID[:idDigits] + "-" + bodyDigest[:bodyDigits] + "-" + key[:keyDigits]
}

// BodyDigest is the part of a body's SHA-256 that custom ids hold.
func BodyDigest(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:bodyDigits/2])
}

// Misfit says why a custom id is none of a batch's, as far as it tells.
func Misfit(customID, key string, asks map[string]bool) string {
	if len(customID) != CustomIDLength || customID[idDigits] != '-' || customID[idDigits+1+bodyDigits] != '-' {
		return "it is no id of ours"
	}
	switch {
	case customID[CustomIDLength-keyDigits:] != key[:keyDigits]:
		return "it is of another batch"
	case asks[customID[:idDigits]]:
		return "the digest of its prompt is another"
	}
	return "its ask is not in this batch"
}
