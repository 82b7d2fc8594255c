package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

// Epochs are which of its teachers a dataset has asked anew, beside what its
// recipes say: by a refresh, whose answers stand for the older ones from then
// on, or by a probe, whose answers are only compared with them.
type Epochs struct {
	FormatVersion int            `json:"format_version"`
	Teachers      []TeacherEpoch `json:"teachers"`
}

// EpochsFormat is the format of Epochs that this program writes.
const EpochsFormat = 1

// A TeacherKey is a teacher as far as its answers are concerned.
type TeacherKey struct {
	Endpoint string `json:"endpoint"` // identity
	Model    string `json:"model"`
	Epoch    int    `json:"epoch"` // of the recipe
}

// A TeacherEpoch is what is known of one of a dataset's teachers.
type TeacherEpoch struct {
	TeacherKey
	Teacher string `json:"teacher"` // its id at that time

	Refreshes   int        `json:"refreshes,omitempty"`  // refreshes so far; the last may be under way
	Refreshing  string     `json:"refreshing,omitempty"` // build of one that is under way; a later build may have gone on with it
	RefreshedAt *time.Time `json:"refreshed_at,omitempty"`

	Probes   int        `json:"probes,omitempty"`  // probes so far; the last may be under way
	Probing  string     `json:"probing,omitempty"` // build of one that is under way
	ProbedAt *time.Time `json:"probed_at,omitempty"`
	// Drift is what the last probe that ended showed, as a report holds it.
	Drift json.RawMessage `json:"drift,omitempty"`
}

func epochsKey(name string) string { return datasetPrefix(name) + "epochs.json" }

// Of is what is known of a teacher; nil where nothing is.
func (e *Epochs) Of(key TeacherKey) *TeacherEpoch {
	for i := range e.Teachers {
		if e.Teachers[i].TeacherKey == key {
			return &e.Teachers[i]
		}
	}
	return nil
}

// Add is Of with a new entry where there is none.
func (e *Epochs) Add(key TeacherKey, teacher string) *TeacherEpoch {
	if t := e.Of(key); t != nil {
		t.Teacher = teacher
		return t
	}
	e.Teachers = append(e.Teachers, TeacherEpoch{TeacherKey: key, Teacher: teacher})
	return &e.Teachers[len(e.Teachers)-1]
}

// Epochs reads which teachers a dataset has asked anew; none where nothing is
// known.
func (c *Catalog) Epochs(ctx context.Context, name string) (*Epochs, error) {
	if err := ValidName(name); err != nil {
		return nil, err
	}
	data, _, err := objstore.ReadAll(ctx, c.bucket, epochsKey(name), maxSmallBytes)
	if errors.Is(err, objstore.ErrNotFound) {
		return &Epochs{FormatVersion: EpochsFormat}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read which teachers %s has asked anew: %w", name, err)
	}
	return parseEpochs(name, data)
}

func parseEpochs(name string, data []byte) (*Epochs, error) {
	var e Epochs
	if err := json.Unmarshal(data, &e); err != nil {
		return nil, fmt.Errorf("%w: %s is not the JSON it should be: %w", ErrDamaged, epochsKey(name), err)
	}
	if e.FormatVersion > EpochsFormat {
		return nil, fmt.Errorf("%s has format %d, which is newer than this program reads (%d); update it", epochsKey(name), e.FormatVersion, EpochsFormat)
	}
	for i := range e.Teachers {
		if t := &e.Teachers[i]; t.Refreshes < 0 || t.Probes < 0 {
			return nil, fmt.Errorf("%w: %s counts below zero", ErrDamaged, epochsKey(name))
		}
	}
	return &e, nil
}

// ChangeEpochs changes what is known of a dataset's teachers, in one step.
// change may run several times; it tells whether anything is to be written.
func (c *Catalog) ChangeEpochs(ctx context.Context, name string, change func(*Epochs) bool) error {
	if err := ValidName(name); err != nil {
		return err
	}
	err := c.swap(ctx, epochsKey(name), func(old []byte) ([]byte, error) {
		e := &Epochs{FormatVersion: EpochsFormat}
		if old != nil {
			var err error
			if e, err = parseEpochs(name, old); err != nil {
				return nil, err
			}
		}
		if !change(e) {
			return nil, nil
		}
		return e.encode()
	})
	if err != nil {
		return fmt.Errorf("record which teachers %s asks anew: %w", name, err)
	}
	return nil
}

// encode gives the JSON. Where it would be too large, what probes showed longest
// ago goes first; how often each teacher was asked anew always stays.
func (e *Epochs) encode() ([]byte, error) {
	for {
		data, err := json.Marshal(e)
		if err != nil || len(data) <= maxSmallBytes {
			return data, err
		}
		var oldest *TeacherEpoch
		for i := range e.Teachers {
			t := &e.Teachers[i]
			if t.Drift != nil && (oldest == nil || t.ProbedAt == nil || oldest.ProbedAt != nil && t.ProbedAt.Before(*oldest.ProbedAt)) {
				oldest = t
			}
		}
		if oldest == nil {
			return nil, fmt.Errorf("%d bytes of %d teachers, at most %d; give the dataset another name", len(data), len(e.Teachers), maxSmallBytes)
		}
		oldest.Drift = nil
	}
}
