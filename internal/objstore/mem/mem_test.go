package mem_test

import (
	"errors"
	"testing"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
	"github.com/stillhouse-data/stillhouse/internal/objstore/objstoretest"
)

func TestConformance(t *testing.T) {
	objstoretest.Run(t, func(t *testing.T) objstore.Bucket { return mem.New(t.Name()) })
}

func TestFaultComesBeforeTheEffect(t *testing.T) {
	broken := errors.New("broken")
	b := mem.New("t")
	b.Fault = func(op, key string) error {
		if op == mem.OpPut && key == "k" {
			return broken
		}
		return nil
	}
	if _, err := objstore.PutBytes(t.Context(), b, "k", []byte("x"), objstore.PutOptions{}); !errors.Is(err, broken) {
		t.Fatalf("put: %v", err)
	}
	if _, err := b.Head(t.Context(), "k"); !errors.Is(err, objstore.ErrNotFound) {
		t.Fatalf("head: %v", err)
	}
}

func TestLostAnswerComesAfterTheEffect(t *testing.T) {
	broken := errors.New("broken")
	b := mem.New("t")
	b.Lost = func(op, _ string) error {
		if op == mem.OpPut {
			return broken
		}
		return nil
	}
	if _, err := objstore.PutBytes(t.Context(), b, "k", []byte("x"), objstore.PutOptions{}); !errors.Is(err, broken) {
		t.Fatalf("put: %v", err)
	}
	if _, err := b.Head(t.Context(), "k"); err != nil {
		t.Fatalf("head: %v", err)
	}
}
