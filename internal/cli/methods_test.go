package cli

import (
	"encoding/json"
	"testing"
)

// Expressions are shown as they were written.
func TestOptionsOnOneLine(t *testing.T) {
	for in, want := range map[string]string{
		"{\n  \"keep\": \"len(content) \\u003e 10 \\u0026\\u0026 true\",\n  \"n\": 0.10\n}": `{"keep":"len(content) > 10 && true","n":0.10}`,
		"": "",
	} {
		if got := onOneLine(json.RawMessage(in)); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}
