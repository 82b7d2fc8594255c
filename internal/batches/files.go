package batches

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/stillhouse-data/stillhouse/internal/answers"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

// An Ask is one row of a batch, without its prompt.
type Ask struct {
	answers.Ask
	Body      string // BodyDigest of its request
	BodyBytes int    // of that request
	Most      int64  // micro-dollars that it can cost at most; 0 without a price
}

// askLine is an Ask as it is kept.
type askLine struct {
	ID     string `json:"i"`
	Key    string `json:"k"`
	Cap    int64  `json:"c,omitempty"`
	Sample int    `json:"s,omitempty"`
	Body   string `json:"b"`
	Bytes  int    `json:"n"`
	Most   int64  `json:"m,omitempty"`
}

// A File is a batch being made: rows on the local disk, until it is full.
type File struct {
	file *os.File
	w    *bufio.Writer
	size int64
	asks []Ask
	tags []int64 // where each row holds its batch's tag
	most int64
}

// tagPlace stands in a custom id for the batch, whose name depends on all rows.
var tagPlace = strings.Repeat("0", keyDigits)

// NewFile begins a batch in a temporary file of dir. Discard it.
func NewFile(dir string) (*File, error) {
	f, err := os.CreateTemp(dir, "batch-*.jsonl")
	if err != nil {
		return nil, err
	}
	return &File{file: f, w: bufio.NewWriterSize(f, 1<<20)}, nil
}

// Discard removes the temporary file.
func (f *File) Discard() {
	_ = f.file.Close()
	_ = os.Remove(f.file.Name())
}

// Rows is how many rows the file has, and Bytes how many bytes.
func (f *File) Rows() int { return len(f.asks) }

// Bytes of the rows so far.
func (f *File) Bytes() int64 { return f.size }

// Most is what the rows can cost at most, in micro-dollars.
func (f *File) Most() int64 { return f.most }

// DraftID is a row's custom id while the batch has no name yet.
func DraftID(askID, bodyDigest string) string {
	return askID[:idDigits] + "-" + bodyDigest[:bodyDigits] + "-" + tagPlace
}

// Add appends one row, made with the ask's DraftID.
func (f *File) Add(ask Ask, row []byte) error {
	draft := DraftID(ask.ID, ask.Body)
	at := strings.Index(string(row[:min(len(row), 256)]), draft)
	if at < 0 {
		return fmt.Errorf("row of ask %s does not begin with its id", ask.ID)
	}
	f.tags = append(f.tags, f.size+int64(at+CustomIDLength-keyDigits))
	f.asks = append(f.asks, ask)
	f.most += ask.Most
	f.size += int64(len(row))
	_, err := f.w.Write(row)
	return err
}

// Make names the batch, puts it into the store and on the list l of open
// batches, and gives the list's next state. ErrRaced where l is not the newest
// any more: the batch is then not open. Where its state comes back all the same
// its files are written, and [Store.Add] may try again.
func (s *Store) Make(ctx context.Context, l *List, f *File, rec Record) (*State, *List, error) {
	st, err := s.name(ctx, l, f, rec)
	if err != nil {
		return nil, nil, err
	}
	if err := f.tag(st.Key); err != nil {
		return nil, nil, fmt.Errorf("write batch %s: %w", st.Key, err)
	}
	if err := s.putAsks(ctx, st.Key, f); err != nil {
		return nil, nil, err
	}
	if err := s.putPacked(ctx, s.requestsKey(st.Key), f.file); err != nil {
		return nil, nil, err
	}
	if st.etag == "" {
		if err := s.Save(ctx, st); err != nil {
			return nil, nil, raced(err)
		}
	}
	next, err := s.Add(ctx, l, st.Key)
	return st, next, err
}

func raced(err error) error {
	if errors.Is(err, ErrMoved) {
		return ErrRaced
	}
	return err
}

// name finds the name of a batch of these asks: that of one that a step before
// left behind without opening it, else the next that is free.
func (s *Store) name(ctx context.Context, l *List, f *File, rec Record) (*State, error) {
	ids := make([]string, len(f.asks))
	for i := range f.asks {
		ids[i] = f.asks[i].ID
	}
	for round := 0; ; round++ {
		key := Key(s.endpoint, rec.API, round, ids)
		st, err := s.Load(ctx, key)
		if errors.Is(err, objstore.ErrNotFound) {
			rec.Key, rec.Endpoint, rec.Round, rec.State = key, s.endpoint, round, Prepared
			rec.Rows, rec.Bytes, rec.Reserved = len(f.asks), f.size, 0
			return &State{Record: rec}, nil
		}
		if err != nil {
			return nil, err
		}
		switch {
		case st.Closed():
			continue
		case st.State == Prepared && !contains(l.Keys, key):
			return st, nil
		}
		// It is open, and its asks should have been left out: the list that was
		// planned on is old, or it has lost the batch.
		if !contains(l.Keys, key) {
			if _, err := s.Add(ctx, l, key); err != nil {
				return nil, err
			}
		}
		return nil, ErrRaced
	}
}

func contains(keys []string, key string) bool {
	for _, k := range keys {
		if k == key {
			return true
		}
	}
	return false
}

// tag writes the batch's name into every row.
func (f *File) tag(key string) error {
	if err := f.w.Flush(); err != nil {
		return err
	}
	for _, at := range f.tags {
		if _, err := f.file.WriteAt([]byte(key[:keyDigits]), at); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) putAsks(ctx context.Context, key string, f *File) error {
	tmp, err := os.CreateTemp(dirOf(f.file), "asks-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	defer tmp.Close()
	w := bufio.NewWriterSize(tmp, 256<<10)
	enc := json.NewEncoder(w)
	for i := range f.asks {
		a := &f.asks[i]
		if err := enc.Encode(askLine{ID: a.ID, Key: a.Key.String(), Cap: a.Cap, Sample: a.Sample, Body: a.Body, Bytes: a.BodyBytes, Most: a.Most}); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return s.putPacked(ctx, s.asksKey(key), tmp)
}

func dirOf(f *os.File) string {
	name := f.Name()
	return name[:strings.LastIndexByte(name, os.PathSeparator)]
}

// putPacked compresses a file into the store. Whoever writes the key writes the
// same content, so that it may be written again.
func (s *Store) putPacked(ctx context.Context, key string, from *os.File) error {
	if _, err := from.Seek(0, io.SeekStart); err != nil {
		return err
	}
	packed, err := os.CreateTemp(dirOf(from), "packed-*")
	if err != nil {
		return err
	}
	defer os.Remove(packed.Name())
	defer packed.Close()
	z, err := zstd.NewWriter(packed, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	if _, err := io.Copy(z, from); err != nil {
		return errors.Join(err, z.Close())
	}
	if err := z.Close(); err != nil {
		return err
	}
	if _, err := objstore.PutFile(ctx, s.bucket, key, packed.Name(), objstore.PutOptions{}); err != nil {
		return fmt.Errorf("write %s: %w", key, err)
	}
	return nil
}

// maxLine bounds one line of a file of asks.
const maxLine = 4096

// Asks reads the rows of a batch, in the order of its file.
func (s *Store) Asks(ctx context.Context, key string, each func(Ask) error) error {
	return s.unpack(ctx, s.asksKey(key), func(r io.Reader) error {
		lines := bufio.NewScanner(r)
		lines.Buffer(make([]byte, maxLine), maxLine)
		for lines.Scan() {
			var l askLine
			if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
				return err
			}
			a := Ask{Body: l.Body, BodyBytes: l.Bytes, Most: l.Most}
			a.Endpoint, a.ID, a.Cap, a.Sample = s.endpoint, l.ID, l.Cap, l.Sample
			raw, err := hex.DecodeString(l.Key)
			if err != nil || len(raw) != len(a.Key) || len(l.ID) != 64 || len(l.Body) != bodyDigits {
				return fmt.Errorf("a row is damaged: %q", lines.Bytes())
			}
			copy(a.Ask.Key[:], raw)
			if err := each(a); err != nil {
				return err
			}
		}
		return lines.Err()
	})
}

// Requests brings the file of requests onto the local disk and gives its path.
// The caller removes it.
func (s *Store) Requests(ctx context.Context, rec *Record, dir string) (path string, err error) {
	out, err := os.CreateTemp(dir, "requests-*.jsonl")
	if err != nil {
		return "", err
	}
	defer func() {
		if cerr := out.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			_ = os.Remove(out.Name())
		}
	}()
	var n int64
	err = s.unpack(ctx, s.requestsKey(rec.Key), func(r io.Reader) error {
		var err error
		n, err = io.Copy(out, io.LimitReader(r, rec.Bytes+1))
		return err
	})
	if err == nil && n != rec.Bytes {
		err = fmt.Errorf("the file of requests of batch %s has %d bytes, and its record says %d", rec.Key, n, rec.Bytes)
	}
	return out.Name(), err
}

func (s *Store) unpack(ctx context.Context, key string, read func(io.Reader) error) error {
	body, _, err := s.bucket.Get(ctx, key)
	if err != nil {
		return fmt.Errorf("read %s: %w", key, err)
	}
	defer body.Close()
	z, err := zstd.NewReader(body, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(256<<20))
	if err != nil {
		return err
	}
	defer z.Close()
	if err := read(z); err != nil {
		return fmt.Errorf("read %s: %w", key, err)
	}
	return nil
}
