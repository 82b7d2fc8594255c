package objstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
)

// ErrIgnoresConditions: the store answers yes to conditional writes whose
// condition does not hold. Two writers would overwrite each other, so nothing
// is published there.
var ErrIgnoresConditions = errors.New("store ignores conditional writes")

// ProbeKey is a fresh key for probing a store.
func ProbeKey() string { return "probe/" + rand.Text() }

// Probe finds out whether a store honours the conditions that publishing rests
// on: a second create of a key fails, so does a replace under a wrong ETag, a
// replace under the right one succeeds, and what is read is what was written
// last. It deletes what it wrote; where it may not, a few bytes stay.
func Probe(ctx context.Context, b Bucket) error {
	fail := func(err error) error { return fmt.Errorf("probe the store: %w", err) }
	ignores := func(header string) error {
		return fail(fmt.Errorf("%s ignores %s: %w; use a store that honours it", b, header, ErrIgnoresConditions))
	}
	key := ProbeKey()
	first, err := PutBytes(ctx, b, key, []byte("first"), PutOptions{IfNoneMatch: true})
	if err != nil {
		return fail(err)
	}
	defer func() { _ = b.Delete(context.WithoutCancel(ctx), key) }()
	switch _, err := PutBytes(ctx, b, key, []byte("second"), PutOptions{IfNoneMatch: true}); {
	case err == nil:
		return ignores("If-None-Match")
	case !errors.Is(err, ErrPrecondition):
		return fail(err)
	}
	second, err := PutBytes(ctx, b, key, []byte("second"), PutOptions{IfMatch: first.ETag})
	if err != nil {
		return fail(err)
	}
	if second.ETag == first.ETag {
		return fail(fmt.Errorf("%s gives one ETag to two contents: %w", b, ErrIgnoresConditions))
	}
	switch _, err := PutBytes(ctx, b, key, []byte("third"), PutOptions{IfMatch: first.ETag}); {
	case err == nil:
		return ignores("If-Match")
	case !errors.Is(err, ErrPrecondition):
		return fail(err)
	}
	data, attr, err := ReadAll(ctx, b, key, 64)
	if err != nil {
		return fail(err)
	}
	if string(data) != "second" || attr.ETag != second.ETag {
		return fail(fmt.Errorf("%s returned %q where %q was written", b, data, "second"))
	}
	return nil
}
