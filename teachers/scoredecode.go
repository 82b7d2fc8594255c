package teachers

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// maxScores bounds the numbers of one scoring answer: a reward model gives one
// for each token of a conversation.
const maxScores = 4_000_000

// FinishScored is the finish reason of a scoring answer: it is whole.
const FinishScored = "stop"

// scoreDecoder reads the answer of a scoring endpoint, which is one JSON text.
type scoreDecoder struct {
	form    string
	model   string
	usage   usageTally
	values  []float64
	entries int // results for texts
	failure *Error
	seen    bool
}

// event: nothing of this is streamed, so a stream is another program's.
func (d *scoreDecoder) event(_, data []byte) (bool, error) {
	if data = bytes.TrimSpace(data); len(data) == 0 {
		return false, nil
	}
	return false, d.fail(&Error{Class: ClassMalformed, Excerpt: "a scoring endpoint answers with one JSON text, not with a stream"})
}

func (d *scoreDecoder) finished() bool { return d.failure == nil && d.seen }

func (d *scoreDecoder) closed() bool { return false }

func (d *scoreDecoder) fail(e *Error) error {
	d.failure = e
	return e
}

func (d *scoreDecoder) whole(body []byte) error {
	body = bytes.TrimSpace(body)
	end, err := skipValue(body, 0, 0)
	if err == nil && end < len(body) {
		err = errJSONSyntax
	}
	if err != nil {
		class := ClassMalformed
		if errors.Is(err, errJSONEnd) {
			class = ClassTruncated
		}
		return d.fail(&Error{Class: class, Excerpt: err.Error(), cause: err})
	}
	if body[0] == '[' { // text-embeddings-inference
		d.seen = true
		d.list(body)
		return nil
	}
	c := walk(body)
	for c.next() {
		switch string(c.name) {
		case "data", "results":
			d.seen = true
			d.list(c.value)
		case "model":
			d.model = textOf(c.value)
		case "usage":
			d.usage.add(c.value)
		case "error":
			if reportsError(c.value) {
				return d.fail(errorInBody(body))
			}
		}
	}
	if !d.seen {
		return d.fail(errorInBody(body))
	}
	return nil
}

// list reads the results, one for each text that was asked about.
func (d *scoreDecoder) list(value []byte) {
	l := inside(value)
	for l.next() {
		if d.entries++; d.entries == 1 {
			d.entry(l.value)
		}
	}
}

func (d *scoreDecoder) entry(value []byte) {
	if len(value) == 0 || value[0] != '{' {
		d.numbers(value, 0)
		return
	}
	c := inside(value)
	for c.next() {
		switch string(c.name) {
		case "score", "relevance_score", "data", "probs":
			d.numbers(c.value, 0)
		}
	}
}

// numbers takes the numbers of a value in their order, however deep they lie:
// reward models give one for each token, or a list for each step.
func (d *scoreDecoder) numbers(value []byte, depth int) {
	const deepest = 4
	if len(value) > 0 && value[0] == '[' {
		l := inside(value)
		for depth < deepest && len(d.values) < maxScores && l.next() {
			d.numbers(l.value, depth+1)
		}
		return
	}
	d.values = append(d.values, number(value))
}

// number is NaN for what is no finite number.
func number(value []byte) float64 {
	f, err := strconv.ParseFloat(string(value), 64)
	if err != nil || math.IsInf(f, 0) {
		return math.NaN()
	}
	return f
}

func (d *scoreDecoder) answer() (*Answer, error) {
	switch {
	case d.failure != nil:
		return nil, d.failure
	case !d.seen || d.entries == 0:
		return nil, &Error{Class: ClassEmpty, Excerpt: "the response holds no score"}
	case d.entries > 1:
		// Nobody could tell which of them is the one that was asked for.
		return nil, &Error{Class: ClassMalformed, Excerpt: fmt.Sprintf("the response holds %d results for one text", d.entries), final: true}
	}
	return &Answer{
		Message: chat.Message{Role: chat.RoleAssistant},
		Finish:  FinishScored, Model: d.model, Usage: d.usage.result(), Scores: d.values,
	}, nil
}
