package answers

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/stillhouse-data/stillhouse/internal/chat"
)

func identity(change func(*Identity)) Identity {
	id := Identity{
		Endpoint: endpointA, Epoch: 1,
		Body:     []byte(`{"messages":[{"content":"hi","role":"user"}],"model":"m","temperature":1}`),
		CapField: "max_tokens", Cap: 100,
		Headers: map[string]string{"OpenAI-Beta": "x", "x-route": "eu"},
		Images:  []string{"aa", "bb"},
		Sample:  2,
	}
	if change != nil {
		change(&id)
	}
	return id
}

// TestIdentity says what makes an ask another one. What is not in Identity
// (stream, stream_options, user, metadata, how the endpoint is reached, online
// or batch) can't.
func TestIdentity(t *testing.T) {
	base := Identify(identity(nil))
	tests := []struct {
		name    string
		change  func(*Identity)
		key, id bool // do they move?
	}{
		{"nothing", func(*Identity) {}, false, false},
		{"endpoint", func(id *Identity) { id.Endpoint = endpointB }, true, true},
		{"epoch", func(id *Identity) { id.Epoch = 2 }, true, true},
		{"system prompt", func(id *Identity) {
			id.Body = []byte(`{"messages":[{"content":"be brief","role":"system"},{"content":"hi","role":"user"}],"model":"m","temperature":1}`)
		}, true, true},
		{"user text", func(id *Identity) {
			id.Body = []byte(`{"messages":[{"content":"hi!","role":"user"}],"model":"m","temperature":1}`)
		}, true, true},
		{"a parameter's value", func(id *Identity) {
			id.Body = []byte(`{"messages":[{"content":"hi","role":"user"}],"model":"m","temperature":0.5}`)
		}, true, true},
		{"a parameter more", func(id *Identity) {
			id.Body = []byte(`{"messages":[{"content":"hi","role":"user"}],"model":"m","reasoning_effort":"high","temperature":1}`)
		}, true, true},
		{"model", func(id *Identity) {
			id.Body = []byte(`{"messages":[{"content":"hi","role":"user"}],"model":"n","temperature":1}`)
		}, true, true},
		{"header value", func(id *Identity) { id.Headers["x-route"] = "us" }, true, true},
		{"header more", func(id *Identity) { id.Headers["x-more"] = "" }, true, true},
		{"no headers", func(id *Identity) { id.Headers = nil }, true, true},
		{"header name's case", func(id *Identity) { id.Headers = map[string]string{"openai-beta": "x", "X-Route": "eu"} }, false, false},
		{"header names and values swapped", func(id *Identity) { id.Headers = map[string]string{"openai-beta": "eu", "x-route": "x"} }, true, true},
		{"an image's byte", func(id *Identity) { id.Images = []string{"aa", "bc"} }, true, true},
		{"order of images", func(id *Identity) { id.Images = []string{"bb", "aa"} }, true, true},
		{"one image less", func(id *Identity) { id.Images = []string{"aa"} }, true, true},
		{"no images", func(id *Identity) { id.Images = nil }, true, true},
		{"sample index", func(id *Identity) { id.Sample = 3 }, true, true},
		{"token cap", func(id *Identity) { id.Cap = 200 }, false, true},
		{"no token cap", func(id *Identity) { id.Cap = 0 }, false, true},
		{"the cap's field", func(id *Identity) { id.CapField = "max_completion_tokens" }, false, true},
		{"the cap's field without a cap", func(id *Identity) { id.Cap = 0; id.CapField = "max_completion_tokens" }, false, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Identify(identity(func(id *Identity) {
				id.Headers = maps.Clone(id.Headers)
				tt.change(id)
			}))
			if moved := got.Key != base.Key; moved != tt.key {
				t.Errorf("the key moved: %v, want %v", moved, tt.key)
			}
			if moved := got.ID != base.ID; moved != tt.id {
				t.Errorf("the id moved: %v, want %v", moved, tt.id)
			}
		})
	}
	if a, b := Identify(identity(func(id *Identity) { id.Cap = 0 })), Identify(identity(func(id *Identity) { id.Cap = 0; id.CapField = "other" })); a != b {
		t.Error("the name of a cap that is not there moved the ask")
	}
}

// TestIdentityIsCanonicalJSON derives the digests a second time, slowly.
func TestIdentityIsCanonicalJSON(t *testing.T) {
	digest := func(id Identity, withCap bool) string {
		headers := map[string]string{"openai-beta": "x", "x-route": "eu"}
		object := map[string]any{
			"body": json.RawMessage(id.Body), "endpoint": id.Endpoint, "epoch": id.Epoch,
			"headers": headers, "images": id.Images, "sample": id.Sample,
		}
		if withCap {
			object["cap"] = map[string]int64{id.CapField: id.Cap}
		}
		text, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		canonical, err := chat.Canonical(text)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(canonical)
		return hex.EncodeToString(sum[:])
	}
	id := identity(nil)
	got := Identify(id)
	if want := digest(id, false); got.Key.String() != want {
		t.Errorf("key %s, want %s", got.Key, want)
	}
	if want := digest(id, true); got.ID != want {
		t.Errorf("id %s, want %s", got.ID, want)
	}
	id.Cap = 0
	if got := Identify(id); got.ID != got.Key.String() {
		t.Errorf("without a cap the id is %s, the key %s", got.ID, got.Key)
	}
}

// TestServes is the serving rule as a table.
func TestServes(t *testing.T) {
	const none = 0
	tests := []struct {
		finish  string
		had     int64 // cap of the record
		asked   int64
		serves  bool
		because string
	}{
		{"stop", 100, 100, true, "the very ask"},
		{"stop", 100, 200, true, "it ended before the smaller cap"},
		{"stop", 100, none, true, "it ended before the smaller cap"},
		{"stop", none, none, true, "the very ask"},
		{"stop", 200, 100, false, "it might have been cut off at 100"},
		{"stop", none, 100, false, "it might have been cut off at 100"},
		{"length", 100, 100, true, "the very ask"},
		{"length", none, none, true, "the very ask: the model's own limit"},
		{"length", 100, 200, false, "a larger cap has room for more"},
		{"length", 100, none, false, "no cap has room for more"},
		{"length", 200, 100, false, "another ask"},
		{"content_filter", 100, 100, true, "a result, not an error"},
		{"content_filter", 100, 200, false, "another ask"},
		{"max_tokens", 100, 200, false, "length in another dialect"},
		{"tool_calls", 100, 200, true, "it ended by itself"},
		{"function_call", 100, 200, true, "it ended by itself"},
		{"end_turn", 100, 200, true, "it ended by itself"},
		{"stop_sequence", 100, 200, true, "it ended by itself"},
		{"tool_use", 100, 200, true, "it ended by itself"},
		{"", 100, 100, false, "no terminal finish reason: a failure"},
	}
	for _, tt := range tests {
		r := answerTo(askFor(endpointA, 1, tt.had), tt.finish, "x")
		r.Complete = tt.finish != ""
		if got := r.Serves(askFor(endpointA, 1, tt.asked)); got != tt.serves {
			t.Errorf("%q under cap %d serves cap %d: %v, want %v (%s)", tt.finish, tt.had, tt.asked, got, tt.serves, tt.because)
		}
		if r.Serves(askFor(endpointA, 2, tt.asked)) || r.Serves(askFor(endpointB, 1, tt.asked)) {
			t.Errorf("%q under cap %d serves another prompt or endpoint", tt.finish, tt.had)
		}
	}
}

// TestServingThroughTheStore asks the store the same questions.
func TestServingThroughTheStore(t *testing.T) {
	at := func(i int, limit int64) Ask { return askFor(endpointA, i, limit) }
	early, late := answerTo(at(0, 0), "", "").Started, answerTo(at(0, 0), "", "").Started.Add(1e9)
	records := []*Record{
		answerTo(at(1, 100), "stop", "one"),
		answerTo(at(2, 100), "length", "two at 100"),
		answerTo(at(2, 200), "stop", "two at 200"),
		answerTo(at(3, 100), "stop", "three, first"),
		answerTo(at(3, 100), "stop", "three, second"),
		failureOf(at(4, 100), late, "late"),
		failureOf(at(4, 100), early, "early, written later"),
		failureOf(at(5, 100), early, "superseded"),
		answerTo(at(5, 100), "content_filter", "five"),
		answerTo(at(6, 50), "stop", "six at 50, second"),
		answerTo(at(6, 100), "length", "six at 100"),
	}
	asks := []Ask{
		at(1, 100), at(1, 50), at(1, 200), at(1, 0),
		at(2, 100), at(2, 150), at(2, 200), at(2, 0),
		at(3, 100), at(4, 100), at(4, 200), at(5, 100), at(6, 100), at(6, 100), at(7, 0),
		askFor(endpointB, 1, 100),
	}
	want := []string{
		"one", "-", "one", "one",
		"two at 100", "-", "two at 200", "two at 200",
		"three, first", "!late", "-", "five", "six at 50, second", "six at 50, second", "-",
		"-",
	}
	for _, flush := range []bool{false, true} { // in one segment, and one segment each
		s := opened(t, memBucket(), t.TempDir(), nil)
		for _, r := range records {
			mustAppend(t, s, r)
			if flush {
				mustFlush(t, s)
			}
		}
		mustFlush(t, s)
		wantTexts(t, s, asks, want...)
	}
	slices.Reverse(records)
	s := opened(t, memBucket(), t.TempDir(), nil)
	mustAppend(t, s, records...)
	want[8], want[12], want[13] = "three, second", "six at 100", "six at 100"
	wantTexts(t, s, asks, want...)
}
