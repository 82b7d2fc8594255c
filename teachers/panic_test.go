package teachers

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

// faulty is a dialect whose decoder has a bug.
type faulty struct{ openAI }

func (faulty) decoder() decoder { return faultyDecoder{} }

type faultyDecoder struct{ decoder }

func (faultyDecoder) closed() bool { return false }

func (faultyDecoder) event([]byte, []byte) (bool, error) { panic("index out of range") }
func (faultyDecoder) whole([]byte) error                 { panic("index out of range") }

type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// What a model sends must not end the process, which has other answers under
// way, and is not asked for again and again.
func TestADecoderThatPanicsCostsOneAnswer(t *testing.T) {
	for _, body := range []string{"data: {\"x\":1}\n\n", `{"x":1}`} {
		sent := 0
		c := NewClient(&Config{API: "openai", BaseURL: "http://127.0.0.1:1/v1", Model: "m"}, WithTransport(transport(func(*http.Request) (*http.Response, error) {
			sent++
			return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}, nil
		})))
		c.dialect = faulty{}
		_, err := c.Ask(t.Context(), &Request{Body: []byte("{}")})
		var failure *Error
		if !errors.As(err, &failure) || failure.Class != ClassMalformed || string(failure.Partial) != body {
			t.Fatalf("%q: %v", body, err)
		}
		if sent != 1 {
			t.Errorf("%q: sent %d times", body, sent)
		}
	}
}
