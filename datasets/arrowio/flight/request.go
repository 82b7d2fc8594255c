package flight

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow/go/v17/arrow/flight"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/arrowio"
	"github.com/stillhouse-data/stillhouse/datasets/views"
)

// A Request is what a flight is asked for by, as the JSON of a descriptor's
// command. An unknown key is refused.
type Request struct {
	Ref   string `json:"ref"`             // such as maths, maths@12 or maths@tag
	View  string `json:"view,omitempty"`  // default: messages
	Split string `json:"split,omitempty"` // default: train

	// As of an export; each default is the view's.
	Reasoning string   `json:"reasoning,omitempty"`
	ThinkTag  string   `json:"think_tag,omitempty"`
	Effort    string   `json:"effort,omitempty"`
	ToolArgs  string   `json:"tool_args,omitempty"`
	Images    string   `json:"images,omitempty"`
	LeaveOut  []string `json:"leave_out,omitempty"` // forbidden, unfit

	BatchRows  int   `json:"batch_rows,omitempty"`  // at most, in a record batch; default 1000
	BatchBytes int64 `json:"batch_bytes,omitempty"` // at most, but for a single row; default 2 MiB
}

const (
	// defaultBatchBytes keeps a message below the 4 MiB that gRPC's clients
	// take where nobody set them another limit.
	defaultBatchBytes = 2 << 20
	maxBatchBytes     = 64 << 20
	maxBatchRows      = 100_000
	maxCommandBytes   = 16 << 10
)

// errRequest is what errors about a descriptor or a request wrap.
var errRequest = errors.New("bad request")

// parse reads a descriptor.
func parse(d *flight.FlightDescriptor) (Request, error) {
	var r Request
	switch {
	case d.GetType() == flight.DescriptorPATH && len(d.GetCmd()) == 0:
		path := d.GetPath()
		if len(path) < 1 || len(path) > 3 {
			return r, fmt.Errorf("%w: a path is [ref, view, split], the last two with defaults; this one has %d parts", errRequest, len(path))
		}
		for i, to := range []*string{&r.Ref, &r.View, &r.Split} {
			if i < len(path) {
				*to = path[i]
			}
		}
	case d.GetType() == flight.DescriptorCMD && len(d.GetPath()) == 0:
		if err := decode(d.GetCmd(), &r); err != nil {
			return r, fmt.Errorf(`%w: the command is not the JSON that it should be, such as {"ref": "maths", "view": "messages", "split": "train"}: %w`, errRequest, err)
		}
	default:
		return r, fmt.Errorf("%w: a descriptor has a path, or a command in JSON", errRequest)
	}
	return r, r.check()
}

// decode reads strict JSON of one value.
func decode(data []byte, v any) error {
	if len(data) > maxCommandBytes {
		return fmt.Errorf("it has %d bytes, more than %d", len(data), maxCommandBytes)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more after it")
	}
	return nil
}

// check fills the defaults in and bounds what can be bounded without a look at
// the catalog.
func (r *Request) check() error {
	if r.View == "" {
		r.View = views.ViewMessages
	}
	if r.Split == "" {
		r.Split = datasets.TableTrain
	}
	if r.BatchRows == 0 {
		r.BatchRows = arrowio.DefaultBatchRows
	}
	if r.BatchBytes == 0 {
		r.BatchBytes = defaultBatchBytes
	}
	switch {
	case r.Ref == "":
		return fmt.Errorf("%w: no ref; name a dataset or a version, such as maths@12", errRequest)
	case len(r.Ref) > 1024 || len(r.View) > 64:
		return fmt.Errorf("%w: the ref or the view is too long", errRequest)
	case r.Split != datasets.TableTrain && r.Split != datasets.TableTest:
		return fmt.Errorf("%w: split %.40q; there are: %s, %s", errRequest, r.Split, datasets.TableTrain, datasets.TableTest)
	case r.BatchRows < 1 || r.BatchRows > maxBatchRows:
		return fmt.Errorf("%w: batch_rows %d; want 1 to %d", errRequest, r.BatchRows, maxBatchRows)
	case r.BatchBytes < 1 || r.BatchBytes > maxBatchBytes:
		return fmt.Errorf("%w: batch_bytes %d; want 1 to %d", errRequest, r.BatchBytes, maxBatchBytes)
	}
	for _, what := range r.LeaveOut {
		if what != leaveForbidden && what != leaveUnfit {
			return fmt.Errorf("%w: leave_out %.40q; there are: %s, %s", errRequest, what, leaveForbidden, leaveUnfit)
		}
	}
	return nil
}

const (
	leaveForbidden = "forbidden"
	leaveUnfit     = "unfit"
)

// options are the view's.
func (r *Request) options() views.Options {
	o := views.Options{Form: views.Arrow, Reasoning: r.Reasoning, ThinkTag: r.ThinkTag, Effort: r.Effort, ToolArgs: r.ToolArgs, Images: r.Images}
	for _, what := range r.LeaveOut {
		o.LeaveOutForbidden = o.LeaveOutForbidden || what == leaveForbidden
		o.LeaveOutUnfit = o.LeaveOutUnfit || what == leaveUnfit
	}
	return o
}

// stream are the options of the record batches.
func (r *Request) stream() arrowio.Options {
	return arrowio.Options{BatchRows: r.BatchRows, BatchBytes: r.BatchBytes}
}
