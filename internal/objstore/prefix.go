package objstore

import (
	"context"
	"io"
	"iter"
	"strings"
	"time"
)

// A Presigner makes URLs that let whoever holds them do one thing to one key
// until they expire. Stores that can do this implement it next to Bucket.
type Presigner interface {
	// PresignGet returns a URL that reads the object; ttl is 1 s to 7 days.
	PresignGet(ctx context.Context, key string, ttl time.Duration) (string, error)
	// PresignPut returns a URL that writes the object with one PUT.
	PresignPut(ctx context.Context, key string, ttl time.Duration) (string, error)
}

// WithPrefix is the part of b under a prefix, as a bucket of its own. It
// presigns where b does. An empty prefix gives b itself.
func WithPrefix(b Bucket, prefix string) Bucket {
	if prefix == "" {
		return b
	}
	p := &prefixed{bucket: b, prefix: prefix}
	if s, ok := b.(Presigner); ok {
		return &presigningPrefixed{prefixed: p, signer: s}
	}
	return p
}

type prefixed struct {
	bucket Bucket
	prefix string
}

func (p *prefixed) String() string { return p.bucket.String() + "/" + p.prefix }

func (p *prefixed) full(key string) (string, error) {
	if err := ValidKey(key); err != nil {
		return "", err
	}
	return JoinPrefix(p.prefix, key), nil
}

func (p *prefixed) bare(a Attr) Attr {
	a.Key = strings.TrimPrefix(a.Key, p.prefix+"/")
	return a
}

func (p *prefixed) Get(ctx context.Context, key string) (io.ReadCloser, Attr, error) {
	full, err := p.full(key)
	if err != nil {
		return nil, Attr{}, err
	}
	body, attr, err := p.bucket.Get(ctx, full)
	return body, p.bare(attr), err
}

func (p *prefixed) GetRange(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	full, err := p.full(key)
	if err != nil {
		return nil, err
	}
	return p.bucket.GetRange(ctx, full, off, n)
}

func (p *prefixed) Head(ctx context.Context, key string) (Attr, error) {
	full, err := p.full(key)
	if err != nil {
		return Attr{}, err
	}
	attr, err := p.bucket.Head(ctx, full)
	return p.bare(attr), err
}

func (p *prefixed) Put(ctx context.Context, key string, body io.ReadSeeker, size int64, opt PutOptions) (Attr, error) {
	full, err := p.full(key)
	if err != nil {
		return Attr{}, err
	}
	attr, err := p.bucket.Put(ctx, full, body, size, opt)
	return p.bare(attr), err
}

func (p *prefixed) Delete(ctx context.Context, keys ...string) error {
	full := make([]string, len(keys))
	for i, key := range keys {
		var err error
		if full[i], err = p.full(key); err != nil {
			return err
		}
	}
	return p.bucket.Delete(ctx, full...)
}

func (p *prefixed) List(ctx context.Context, prefix, after string) iter.Seq2[Attr, error] {
	if after != "" {
		after = JoinPrefix(p.prefix, after)
	}
	inner := p.bucket.List(ctx, JoinPrefix(p.prefix, prefix), after)
	return func(yield func(Attr, error) bool) {
		for attr, err := range inner {
			if !yield(p.bare(attr), err) {
				return
			}
		}
	}
}

type presigningPrefixed struct {
	*prefixed
	signer Presigner
}

func (p *presigningPrefixed) PresignGet(ctx context.Context, key string, ttl time.Duration) (string, error) {
	full, err := p.full(key)
	if err != nil {
		return "", err
	}
	return p.signer.PresignGet(ctx, full, ttl)
}

func (p *presigningPrefixed) PresignPut(ctx context.Context, key string, ttl time.Duration) (string, error) {
	full, err := p.full(key)
	if err != nil {
		return "", err
	}
	return p.signer.PresignPut(ctx, full, ttl)
}
