package objstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

// readAttempts is how often an object is read from the start when its body
// breaks off. The store's own retries end once the headers are there.
const readAttempts = 4

// ErrTooLarge: the object is larger than the caller allows.
var ErrTooLarge = errors.New("object too large")

// ReadAll reads a whole object of at most max bytes; a larger one is
// ErrTooLarge and is not read. A body that breaks off is read again.
func ReadAll(ctx context.Context, b Bucket, key string, max int64) ([]byte, Attr, error) {
	var err error
	for range readAttempts {
		var data []byte
		var attr Attr
		data, attr, err = readOnce(ctx, b, key, max)
		if err == nil {
			return data, attr, nil
		}
		var broken *bodyError
		if !errors.As(err, &broken) || ctx.Err() != nil {
			break
		}
	}
	return nil, Attr{}, err
}

// A bodyError is a body that could not be read to its end. It is worth
// another try, where an error to open it has been tried by the store already.
type bodyError struct {
	key string
	err error
}

func (e *bodyError) Error() string { return fmt.Sprintf("read %s: %v", e.key, e.err) }
func (e *bodyError) Unwrap() error { return e.err }

func readOnce(ctx context.Context, b Bucket, key string, max int64) ([]byte, Attr, error) {
	body, attr, err := b.Get(ctx, key)
	if err != nil {
		return nil, Attr{}, err
	}
	defer body.Close()
	if attr.Size > max {
		return nil, Attr{}, fmt.Errorf("read %s from %s: %w: %d bytes, at most %d", key, b, ErrTooLarge, attr.Size, max)
	}
	data := make([]byte, attr.Size)
	if _, err := io.ReadFull(body, data); err != nil {
		return nil, Attr{}, &bodyError{key, noEOF(err)}
	}
	// The end must be seen: a checksum is compared there.
	switch n, err := io.ReadFull(body, make([]byte, 1)); {
	case n > 0:
		return nil, Attr{}, &bodyError{key, fmt.Errorf("more than the %d bytes that were announced", attr.Size)}
	case err != io.EOF:
		return nil, Attr{}, &bodyError{key, err}
	}
	return data, attr, nil
}

// noEOF keeps the end of a body that came too early from looking like the end
// of the data.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// PutBytes writes data to a key.
func PutBytes(ctx context.Context, b Bucket, key string, data []byte, opt PutOptions) (Attr, error) {
	return b.Put(ctx, key, bytes.NewReader(data), int64(len(data)), opt)
}

// PutFile writes the file at path to a key. The file must not change
// meanwhile.
func PutFile(ctx context.Context, b Bucket, key, path string, opt PutOptions) (Attr, error) {
	f, size, err := openFile(path)
	if err != nil {
		return Attr{}, fmt.Errorf("put %s: %w", key, err)
	}
	defer f.Close()
	return b.Put(ctx, key, f, size, opt)
}

func openFile(path string) (*os.File, int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// CreateOrSame creates the object unless it is there already with the same
// size, which counts as success. It is for keys that name their content by
// digest, where whatever is there was written by this same call at another
// time. Another size is an error that wraps ErrPrecondition.
func CreateOrSame(ctx context.Context, b Bucket, key string, data []byte) (Attr, error) {
	return createOrSame(ctx, b, key, bytes.NewReader(data), int64(len(data)))
}

// CreateFileOrSame is CreateOrSame for the content of a file.
func CreateFileOrSame(ctx context.Context, b Bucket, key, path string) (Attr, error) {
	f, size, err := openFile(path)
	if err != nil {
		return Attr{}, fmt.Errorf("create %s: %w", key, err)
	}
	defer f.Close()
	return createOrSame(ctx, b, key, f, size)
}

// lookFirst is the size from which a body that is there already is worth a
// question before it is sent: a store says no only after the last byte.
const lookFirst = 1 << 20

func createOrSame(ctx context.Context, b Bucket, key string, body io.ReadSeeker, size int64) (Attr, error) {
	if size >= lookFirst {
		if there, err := b.Head(ctx, key); err == nil && there.Size == size {
			return there, nil
		}
	}
	attr, err := b.Put(ctx, key, body, size, PutOptions{IfNoneMatch: true})
	if !errors.Is(err, ErrPrecondition) {
		return attr, err
	}
	there, headErr := b.Head(ctx, key)
	if headErr != nil {
		return Attr{}, fmt.Errorf("create %s in %s: it exists, but could not be compared: %w", key, b, headErr)
	}
	if there.Size != size {
		return Attr{}, fmt.Errorf("create %s in %s: it exists with %d bytes, ours has %d: %w", key, b, there.Size, size, ErrPrecondition)
	}
	return there, nil
}

// BodySize checks, for implementations of Put, that body holds exactly size
// bytes from where it stands, and returns that position, to which it has been
// put back.
func BodySize(body io.ReadSeeker, size int64) (start int64, err error) {
	start, err = body.Seek(0, io.SeekCurrent)
	if err != nil {
		return 0, fmt.Errorf("find the body's start: %w", err)
	}
	end, err := body.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, fmt.Errorf("find the body's end: %w", err)
	}
	if _, err := body.Seek(start, io.SeekStart); err != nil {
		return 0, fmt.Errorf("rewind the body: %w", err)
	}
	if end-start != size {
		return 0, fmt.Errorf("the body holds %d bytes, the caller said %d", end-start, size)
	}
	return start, nil
}
