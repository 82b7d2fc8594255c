package teachers

import (
	"fmt"
	"strings"
	"testing"
)

// An endpoint may name every event of a stream otherwise: what is told of the
// places of its counts stays short, and reading them takes no longer for it.
func TestPlacesOfCountsAreBounded(t *testing.T) {
	var b strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&b, "event: e%d%s\ndata: {\"usage\":{\"input_tokens\":1}}\n\ndata: {}\n\ndata: {}\n\n", i, strings.Repeat("x", 500))
	}
	if place := usagePlace(FormatAnthropicStream, []byte(b.String())); len(place) > 400 {
		t.Errorf("%d bytes: %.100s", len(place), place)
	}
}
