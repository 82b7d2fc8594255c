//go:build noembed

package local

import (
	"errors"
	"testing"
)

func TestBinaryWithoutServicesSaysSo(t *testing.T) {
	if _, err := Start(t.Context(), Options{}); !errors.Is(err, ErrNotEmbedded) {
		t.Errorf("got %v", err)
	}
	if handled, _ := ChildMain([]string{"__stillhouse-store__"}); handled {
		t.Error("there is no store in this binary")
	}
}
