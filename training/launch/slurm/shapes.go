package slurm

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// A record is a job in the answers of slurmrestd. What one version gives as a
// plain value another wraps; each type here reads both.
type record struct {
	ID     int64  `json:"job_id"`
	Name   string `json:"name"`
	User   string `json:"user_name"`
	State  words  `json:"job_state"`
	Exit   exit   `json:"exit_code"`
	Reason string `json:"state_reason"`
	Start  number `json:"start_time"`
	End    number `json:"end_time"`
}

func (r *record) job() job {
	return job{
		id: fmt.Sprint(r.ID), states: r.State, exit: r.Exit.code, reason: r.Reason,
		start: r.Start.time(), end: r.End.time(),
	}
}

// words are a text, or a list of them (from v0.0.40).
type words []string

// UnmarshalJSON reads both.
func (w *words) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '"' {
		var one string
		err := json.Unmarshal(text, &one)
		*w = strings.FieldsFunc(one, func(r rune) bool { return r == ',' || r == '+' })
		return err
	}
	return json.Unmarshal(text, (*[]string)(w))
}

// A number is plain, or {"set", "infinite", "number"} (from v0.0.39).
type number struct {
	set   bool
	value int64
}

// UnmarshalJSON reads both.
func (n *number) UnmarshalJSON(text []byte) error {
	*n = number{}
	if string(text) == "null" {
		return nil
	}
	if len(text) == 0 || text[0] != '{' {
		n.set = true
		return json.Unmarshal(text, &n.value)
	}
	var wrapped struct {
		Set      bool  `json:"set"`
		Infinite bool  `json:"infinite"`
		Number   int64 `json:"number"`
	}
	if err := json.Unmarshal(text, &wrapped); err != nil {
		return err
	}
	n.set, n.value = wrapped.Set && !wrapped.Infinite, wrapped.Number
	return nil
}

func (n number) time() time.Time {
	if !n.set || n.value <= 0 {
		return time.Time{}
	}
	return time.Unix(n.value, 0).UTC()
}

// An exit is the status of wait(2), or {"status", "return_code", "signal"} (from
// v0.0.39).
type exit struct{ code *int }

// UnmarshalJSON reads both.
func (e *exit) UnmarshalJSON(text []byte) error {
	*e = exit{}
	if len(text) == 0 || text[0] != '{' {
		var n number
		if err := n.UnmarshalJSON(text); err != nil || !n.set {
			return err
		}
		e.code = waitStatus(n.value)
		return nil
	}
	var wrapped struct {
		Return number `json:"return_code"`
		Signal struct {
			ID number `json:"id"`
		} `json:"signal"`
	}
	if err := json.Unmarshal(text, &wrapped); err != nil {
		return err
	}
	signalled := wrapped.Signal.ID.set && wrapped.Signal.ID.value != 0
	if code := int(wrapped.Return.value); wrapped.Return.set && !signalled && code >= 0 && code <= 255 {
		e.code = &code
	}
	return nil
}

// A fault is one of the errors of an answer.
type fault struct {
	Number      int64  `json:"error_number"`
	Error       string `json:"error"`
	Description string `json:"description"`
}

// An answer holds what all answers may hold.
type answer struct {
	Errors []fault `json:"errors"`
	JobID  number  `json:"job_id"`
}

// err is the first error of an answer.
func (a *answer) err() error {
	for _, f := range a.Errors {
		if f.Number == 0 && f.Error == "" && f.Description == "" {
			continue
		}
		return fmt.Errorf("Slurm says %q (%d) %s", f.Error, f.Number, f.Description)
	}
	return nil
}

// eachJob reads {"jobs": […]} one by one, for a cluster may have many
// thousands. Errors in the answer are errors: a list that is not whole says
// nothing of what is missing.
func eachJob(r io.Reader, do func(*record)) error {
	dec := json.NewDecoder(r)
	if err := delim(dec, '{'); err != nil {
		return err
	}
	seen := false
	var all answer
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return err
		}
		switch key {
		case "jobs":
			seen = true
			if err := delim(dec, '['); err != nil {
				return err
			}
			for dec.More() {
				var rec record
				if err := dec.Decode(&rec); err != nil {
					return err
				}
				do(&rec)
			}
			if err := delim(dec, ']'); err != nil {
				return err
			}
		case "errors":
			if err := dec.Decode(&all.Errors); err != nil {
				return err
			}
		default:
			var skip json.RawMessage
			if err := dec.Decode(&skip); err != nil {
				return err
			}
		}
	}
	if err := delim(dec, '}'); err != nil {
		return err
	}
	if err := all.err(); err != nil {
		return err
	}
	if !seen {
		return fmt.Errorf("it does not list jobs")
	}
	return nil
}

func delim(dec *json.Decoder, want json.Delim) error {
	switch got, err := dec.Token(); {
	case err == io.EOF:
		return io.ErrUnexpectedEOF
	case err != nil:
		return err
	case got != want:
		return fmt.Errorf("it does not answer like slurmrestd: %v where %v was expected", got, want)
	}
	return nil
}
