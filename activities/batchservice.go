package activities

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"github.com/stillhouse-data/stillhouse/teachers"
)

// A batchService is where batches are submitted: an endpoint's batch API, or a
// folder of the store that a runner without a server works through.
type batchService interface {
	Limits() teachers.BatchLimits
	AppendRow(ctx context.Context, dst []byte, customID string, r *teachers.Request) ([]byte, error)
	Uploads() bool
	FindUpload(ctx context.Context, o *teachers.BatchOrder) (string, error)
	Upload(ctx context.Context, o *teachers.BatchOrder) (string, error)
	Create(ctx context.Context, o *teachers.BatchOrder) (*teachers.Batch, error)
	Find(ctx context.Context, o *teachers.BatchOrder, since time.Time) (sure, maybe []*teachers.Batch, err error)
	Status(ctx context.Context, id string) (*teachers.Batch, error)
	Fetch(ctx context.Context, b *teachers.Batch, f teachers.BatchFile, to io.Writer) (int64, error)
	Read(r io.Reader, each func(*teachers.BatchRow) error) error
	Cancel(ctx context.Context, id string) error
	Discard(ctx context.Context, fileID string) error
	Close()
}

// service is the worker's one client of a teacher's batch API.
func (a *Activities) service(t *teacher) (batchService, error) {
	id, err := json.Marshal([]any{t.spec.ID, t.endpoint, t.spec.API, t.spec.BaseURL, t.spec.Model, keyRef(t.spec), t.spec.Headers, t.spec.Limits, t.spec.Batch.Folder, t.spec.Batch.Settle, t.config.Profile})
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.services[string(id)]; s != nil {
		return s, nil
	}
	var s batchService
	if folder := t.spec.Batch.Folder; folder != "" {
		s, err = newSpool(a.Bucket, folder, t.config, t.spec.Batch.Settle, teachers.WithImages(a.image))
	} else {
		s, err = teachers.NewBatchClient(t.config, teachers.WithImages(a.image))
	}
	if err != nil {
		return nil, invalidRecipe("teacher %s: %v", t.spec.ID, err)
	}
	if a.services == nil {
		a.services = map[string]batchService{}
	}
	a.services[string(id)] = s
	return s, nil
}

// account names where a teacher's key comes from, never the key.
func (t *teacher) account() string {
	switch ref := keyRef(t.spec); {
	case ref.Env != "":
		return "variable " + ref.Env
	case ref.File != "":
		return "file " + ref.File
	case ref.Secret != "":
		return "secret " + ref.Secret
	}
	return ""
}

// batchLimits are the limits of one file: the vendor's, or lower ones that the
// recipe sets.
func batchLimits(t *teacher, s batchService) teachers.BatchLimits {
	l := s.Limits()
	if n := t.spec.Batch.Rows; n > 0 {
		l.Rows = min(n, l.Rows)
	}
	if n := int64(t.spec.Batch.Bytes); n > 0 {
		l.Bytes = min(n, l.Bytes)
	}
	return l
}
