package views

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
)

// A summing writer counts and digests what goes through it.
type summing struct {
	w   io.Writer
	n   int64
	sum interface {
		io.Writer
		Sum([]byte) []byte
	}
}

func newSumming(w io.Writer) *summing { return &summing{w: w, sum: sha256.New()} }

func (s *summing) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	s.n += int64(n)
	_, _ = s.sum.Write(p[:n]) // a hash takes everything
	return n, err
}

func (s *summing) hex() string { return hex.EncodeToString(s.sum.Sum(nil)) }
