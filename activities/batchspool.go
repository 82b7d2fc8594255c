package activities

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/teachers"
)

// A spool is a folder of the store that stands in for a batch API: files of
// requests are written to batches/spool/<folder>/requests/, and somebody runs
// each through a server's offline runner, such as vllm run-batch, and puts what
// comes of it under the same name into results/. Writing the same file twice
// is no second purchase, so that nothing here can be submitted twice.
type spool struct {
	*teachers.BatchClient // for the form of rows alone: it asks nobody
	bucket                objstore.Bucket
	prefix                string
	settled               time.Duration
}

func newSpool(b objstore.Bucket, folder string, config *teachers.Config, settled time.Duration, options ...teachers.Option) (*spool, error) {
	c := *config
	c.BaseURL = "http://folder.invalid/v1" // rows name no host
	c.Key = nil
	form, err := teachers.NewBatchClient(&c, options...)
	if err != nil {
		return nil, err
	}
	return &spool{form, b, "batches/spool/" + folder + "/", settled}, nil
}

func (s *spool) requests(id string) string { return s.prefix + "requests/" + id + ".jsonl" }

func (s *spool) results(id string) string { return s.prefix + "results/" + id + ".jsonl" }

func (s *spool) Uploads() bool { return false }

func (s *spool) FindUpload(context.Context, *teachers.BatchOrder) (string, error) { return "", nil }

func (s *spool) Upload(context.Context, *teachers.BatchOrder) (string, error) { return "", nil }

func (s *spool) Create(ctx context.Context, o *teachers.BatchOrder) (*teachers.Batch, error) {
	file, err := o.Open()
	if err != nil {
		return nil, err
	}
	defer file.Close()
	local, ok := file.(*os.File)
	if !ok {
		return nil, errors.New("the file of requests is not on the local disk")
	}
	if _, err := objstore.CreateFileOrSame(ctx, s.bucket, s.requests(o.Key), local.Name()); err != nil {
		return nil, fmt.Errorf("write the requests for a runner: %w", err)
	}
	return &teachers.Batch{ID: o.Key, Key: o.Key, Word: "waits for its results", Total: o.Rows}, nil
}

func (s *spool) Find(ctx context.Context, o *teachers.BatchOrder, _ time.Time) (sure, maybe []*teachers.Batch, err error) {
	for _, key := range []string{s.requests(o.Key), s.results(o.Key)} {
		_, err := s.bucket.Head(ctx, key)
		if err == nil {
			return []*teachers.Batch{{ID: o.Key, Key: o.Key, Total: o.Rows}}, nil, nil
		}
		if !errors.Is(err, objstore.ErrNotFound) {
			return nil, nil, err
		}
	}
	return nil, nil, nil
}

// Status: a batch has ended once its file of results holds as many rows as were
// asked, or has stayed as it is for a while. A runner may write it piece by
// piece.
func (s *spool) Status(ctx context.Context, id string) (*teachers.Batch, error) {
	b := &teachers.Batch{ID: id, Key: id, Word: "waits for " + s.results(id)}
	at, err := s.bucket.Head(ctx, s.results(id))
	if errors.Is(err, objstore.ErrNotFound) {
		switch _, err := s.bucket.Head(ctx, s.requests(id)); {
		case errors.Is(err, objstore.ErrNotFound):
			b.Ended = teachers.BatchCancelled // somebody took it away
		case err != nil:
			return nil, err
		}
		return b, nil
	}
	if err != nil {
		return nil, err
	}
	if b.Total, err = s.lines(ctx, s.requests(id)); err != nil && !errors.Is(err, objstore.ErrNotFound) {
		return nil, err
	}
	if b.Done, err = s.lines(ctx, s.results(id)); err != nil {
		return nil, err
	}
	if b.Total > 0 && b.Done >= b.Total || time.Since(at.Modified) > s.settled {
		b.Ended, b.Word = teachers.BatchCompleted, teachers.BatchCompleted
		b.Files = []teachers.BatchFile{{ID: id}}
	}
	return b, nil
}

func (s *spool) lines(ctx context.Context, key string) (int, error) {
	body, _, err := s.bucket.Get(ctx, key)
	if err != nil {
		return 0, err
	}
	defer body.Close()
	r := bufio.NewReaderSize(body, 256<<10)
	n, filled := 0, false
	for {
		piece, err := r.ReadSlice('\n')
		filled = filled || len(piece) > 1
		switch {
		case err == nil:
			if filled {
				n++
			}
			filled = false
		case errors.Is(err, bufio.ErrBufferFull):
		case err == io.EOF:
			return n, nil
		default:
			return 0, err
		}
	}
}

func (s *spool) Fetch(ctx context.Context, b *teachers.Batch, _ teachers.BatchFile, to io.Writer) (int64, error) {
	body, at, err := s.bucket.Get(ctx, s.results(b.ID))
	if err != nil {
		return 0, err
	}
	defer body.Close()
	n, err := io.Copy(to, body)
	if err == nil && n != at.Size {
		err = fmt.Errorf("read %s: %w", s.results(b.ID), io.ErrUnexpectedEOF)
	}
	return n, err
}

// Cancel takes the requests away. A runner that has them already is not
// stopped; what it brings is taken as long as the batch is not collected.
func (s *spool) Cancel(ctx context.Context, id string) error {
	return s.bucket.Delete(ctx, s.requests(id))
}

// Discard takes both files away once the answers are kept.
func (s *spool) Discard(ctx context.Context, id string) error {
	return s.bucket.Delete(ctx, s.requests(id), s.results(id))
}
