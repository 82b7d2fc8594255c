package teacherstest

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Operations of a batch API, for BatchOptions.Fault.
const (
	OpUpload = "upload"
	OpFiles  = "files" // the list of files
	OpSubmit = "submit"
	OpList   = "list" // of batches
	OpStatus = "status"
	OpResult = "result"
	OpCancel = "cancel"
	OpDelete = "delete"
)

// A BatchFault is a way in which one call to a batch API goes wrong.
type BatchFault struct {
	Status  int           // an error instead of doing it
	Message string        // of that error
	Before  bool          // the connection is reset before anything is done
	After   bool          // it is done, and then the connection is reset: the answer is lost
	Cut     float64       // this part of a file of results is sent, then a clean end
	Break   float64       // this part of a file of results is sent, then a reset
	Retry   time.Duration // Retry-After of the error
}

// Outcome of a batch, for BatchOptions.End.
type Outcome struct {
	State  string // completed, failed, expired, cancelled; "" is completed
	Done   int    // rows that are answered before that; all where State is completed
	Line   int    // of a failed batch: the line that is at fault
	Code   string // of a failed batch
	Reason string // of a failed batch
}

// A BatchJob is a batch as the fake knows it.
type BatchJob struct {
	ID      string
	Key     string // its metadata, if any
	Round   int    // how many batches came before it
	Rows    int
	Created time.Time
}

// BatchOptions say how a fake batch API behaves. All are optional.
type BatchOptions struct {
	// Polls is how many looks at a batch find it running; default 1.
	Polls int
	// Now is the clock; default time.Now.
	Now func() time.Time
	// End decides how a batch ends.
	End func(BatchJob) Outcome
	// Fault is asked before every call; n counts the calls of that operation
	// from 0.
	Fault func(op string, n int) BatchFault
	// Results changes the lines of a file of results before it is served.
	Results func(job BatchJob, errors bool, lines []string) []string
	// NoMetadata leaves out the metadata that a batch was submitted with.
	NoMetadata bool
}

// BatchStats are the accounts of a fake batch API.
type BatchStats struct {
	Uploads, Submitted, Cancelled int
	Rows                          int // of all submitted batches
	Answered                      int // rows that were answered: what would be billed
	Unique                        int // distinct bodies among them
	SubmittedTwice                int // rows that were answered or under way in another batch when they were submitted
	Downloads                     int
	Calls                         map[string]int
}

// A BatchServer is a fake endpoint with OpenAI's and Anthropic's batch APIs.
type BatchServer struct {
	URL string // the base URL, with /v1

	options BatchOptions
	script  func(Request) Reply
	mu      sync.Mutex
	files   []*batchFile
	jobs    []*batchJob
	stats   BatchStats
	bodies  map[[32]byte]int // answers of each body
	serial  int
}

type batchFile struct {
	id, name string
	data     []byte
	created  time.Time
	gone     bool
}

type batchJob struct {
	BatchJob
	anthropic  bool
	rows       []batchRow
	input      string
	polls      int
	cancelling bool
	ended      bool
	outcome    Outcome
	output     string // ids of the files
	errors     string
	lines      []string // of the Anthropic form
	counts     [4]int   // succeeded, errored, canceled, expired
}

type batchRow struct {
	CustomID string          `json:"custom_id"`
	Method   string          `json:"method"`
	URL      string          `json:"url"`
	Body     json.RawMessage `json:"body"`
	Params   json.RawMessage `json:"params"`
}

func (r *batchRow) body() json.RawMessage {
	if r.Params != nil {
		return r.Params
	}
	return r.Body
}

// NewBatch starts a fake batch API that answers rows by a script until the test
// ends. A reply with another status than 200 makes an error row; other faults
// of a Reply are not for batches.
func NewBatch(t testing.TB, script func(Request) Reply, options BatchOptions) *BatchServer {
	t.Helper()
	if options.Polls == 0 {
		options.Polls = 1
	}
	if options.Now == nil {
		options.Now = time.Now
	}
	s := &BatchServer{options: options, script: script, bodies: map[[32]byte]int{}, stats: BatchStats{Calls: map[string]int{}}}
	mux := http.NewServeMux()
	for pattern, h := range map[string]struct {
		op string
		do func(http.ResponseWriter, *http.Request) (any, error)
	}{
		"POST /v1/files":                        {OpUpload, s.upload},
		"GET /v1/files":                         {OpFiles, s.listFiles},
		"DELETE /v1/files/{id}":                 {OpDelete, s.deleteFile},
		"POST /v1/batches":                      {OpSubmit, s.submitOpenAI},
		"GET /v1/batches":                       {OpList, s.list(false)},
		"GET /v1/batches/{id}":                  {OpStatus, s.status},
		"POST /v1/batches/{id}/cancel":          {OpCancel, s.cancel},
		"GET /v1/files/{id}/content":            {OpResult, s.content},
		"POST /v1/messages/batches":             {OpSubmit, s.submitAnthropic},
		"GET /v1/messages/batches":              {OpList, s.list(true)},
		"GET /v1/messages/batches/{id}":         {OpStatus, s.status},
		"POST /v1/messages/batches/{id}/cancel": {OpCancel, s.cancel},
		"GET /v1/messages/batches/{id}/results": {OpResult, s.results},
	} {
		mux.HandleFunc(pattern, s.handler(h.op, h.do))
	}
	server := httptest.NewServer(mux)
	s.URL = server.URL + "/v1"
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return s
}

// Stats are the accounts so far.
func (s *BatchServer) Stats() BatchStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.stats
	out.Calls = map[string]int{}
	for op, n := range s.stats.Calls {
		out.Calls[op] = n
	}
	return out
}

// Jobs are the batches that were submitted, in order.
func (s *BatchServer) Jobs() []BatchJob {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]BatchJob, len(s.jobs))
	for i, j := range s.jobs {
		out[i] = j.BatchJob
	}
	return out
}

// A batchError is an error reply.
type batchError struct {
	status  int
	message string
}

func (e *batchError) Error() string { return e.message }

var errNoRow = errors.New("it is no POST to the batch's endpoint")

// raw is a body that is no JSON object of the API.
type raw []byte

func (s *BatchServer) handler(op string, do func(http.ResponseWriter, *http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client went away
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		s.mu.Lock()
		n := s.stats.Calls[op]
		s.stats.Calls[op]++
		s.mu.Unlock()
		var fault BatchFault
		if s.options.Fault != nil {
			fault = s.options.Fault(op, n)
		}
		switch {
		case fault.Before:
			reset(w)
			return
		case fault.Status != 0:
			writeError(w, Reply{Status: fault.Status, Message: fault.Message, RetryAfter: fault.Retry})
			return
		}
		s.mu.Lock()
		out, err := do(w, r)
		s.mu.Unlock()
		if fault.After {
			reset(w)
			return
		}
		var refused *batchError
		switch {
		case err != nil:
			if !errors.As(err, &refused) {
				refused = &batchError{http.StatusBadRequest, err.Error()}
			}
			writeError(w, Reply{Status: refused.status, Message: refused.message, Type: "invalid_request_error"})
		case fault.Cut > 0 || fault.Break > 0:
			data, _ := out.(raw)
			if fault.Break > 0 {
				w.Header().Set("Content-Length", strconv.Itoa(len(data)))
			}
			_, _ = w.Write(data[:int(float64(len(data))*max(fault.Cut, fault.Break))])
			if fault.Break > 0 {
				_ = http.NewResponseController(w).Flush()
				reset(w)
			}
		default:
			if data, ok := out.(raw); ok {
				_, _ = w.Write(data)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(out)
		}
	}
}

func (s *BatchServer) id(prefix string) string {
	s.serial++
	return fmt.Sprintf("%s%06d", prefix, s.serial)
}

func (s *BatchServer) store(name string, data []byte) *batchFile {
	f := &batchFile{id: s.id("file-"), name: name, data: data, created: s.options.Now()}
	s.files = append(s.files, f)
	return f
}

func (s *BatchServer) file(id string) (*batchFile, error) {
	for _, f := range s.files {
		if f.id == id && !f.gone {
			return f, nil
		}
	}
	return nil, &batchError{http.StatusNotFound, "No such File object: " + id}
}

func (s *BatchServer) upload(_ http.ResponseWriter, r *http.Request) (any, error) {
	if err := r.ParseMultipartForm(512 << 20); err != nil {
		return nil, err
	}
	defer func() { _ = r.MultipartForm.RemoveAll() }() // temporary files
	headers := r.MultipartForm.File["file"]
	if r.FormValue("purpose") != "batch" || len(headers) != 1 {
		return nil, fmt.Errorf("want purpose=batch and one file")
	}
	part, err := headers[0].Open()
	if err != nil {
		return nil, err
	}
	defer part.Close()
	data, err := io.ReadAll(part)
	if err != nil {
		return nil, err
	}
	s.stats.Uploads++
	return s.store(headers[0].Filename, data).object(), nil
}

func (f *batchFile) object() map[string]any {
	return map[string]any{"id": f.id, "object": "file", "bytes": len(f.data), "filename": f.name, "purpose": "batch", "created_at": f.created.Unix()}
}

func (s *BatchServer) listFiles(_ http.ResponseWriter, r *http.Request) (any, error) {
	var all []any
	var ids []string
	for _, f := range slices.Backward(s.files) {
		if !f.gone && f.name != "" {
			all, ids = append(all, f.object()), append(ids, f.id)
		}
	}
	return page(r.URL.Query().Get("after"), all, ids), nil
}

// page cuts a list as the APIs do; two to a page, so that clients must turn it.
func page(after string, all []any, ids []string) map[string]any {
	const most = 2
	start := 0
	if i := slices.Index(ids, after); i >= 0 {
		start = i + 1
	}
	end := min(start+most, len(all))
	out := map[string]any{"object": "list", "data": append([]any{}, all[start:end]...), "has_more": end < len(all)}
	if end > start {
		out["last_id"] = ids[end-1]
	}
	return out
}

func (s *BatchServer) deleteFile(_ http.ResponseWriter, r *http.Request) (any, error) {
	f, err := s.file(r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	f.gone = true
	return map[string]any{"id": f.id, "deleted": true}, nil
}

func (s *BatchServer) content(_ http.ResponseWriter, r *http.Request) (any, error) {
	f, err := s.file(r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	s.stats.Downloads++
	return raw(f.data), nil
}

func (s *BatchServer) submitOpenAI(_ http.ResponseWriter, r *http.Request) (any, error) {
	var in struct {
		InputFileID string            `json:"input_file_id"`
		Endpoint    string            `json:"endpoint"`
		Window      string            `json:"completion_window"`
		Metadata    map[string]string `json:"metadata"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		return nil, err
	}
	f, err := s.file(in.InputFileID)
	if err != nil {
		return nil, err
	}
	if in.Endpoint != "/v1/chat/completions" || in.Window == "" {
		return nil, fmt.Errorf("want an endpoint and a completion_window")
	}
	j := &batchJob{input: f.id}
	for line := range strings.Lines(string(f.data)) {
		var row batchRow
		if err := json.Unmarshal([]byte(line), &row); err != nil || row.Method != "POST" || row.URL != in.Endpoint {
			return nil, fmt.Errorf("bad row %q (%w)", line, cmp.Or(err, errNoRow))
		}
		j.rows = append(j.rows, row)
	}
	if !s.options.NoMetadata {
		j.Key = in.Metadata["stillhouse"]
	}
	return s.begin(j)
}

func (s *BatchServer) submitAnthropic(_ http.ResponseWriter, r *http.Request) (any, error) {
	var in struct {
		Requests []batchRow `json:"requests"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		return nil, err
	}
	return s.begin(&batchJob{anthropic: true, rows: in.Requests})
}

// begin takes a batch in and looks at what of it was bought before.
func (s *BatchServer) begin(j *batchJob) (any, error) {
	seen := map[string]bool{}
	for _, row := range j.rows {
		if row.CustomID == "" || len(row.CustomID) > 64 || seen[row.CustomID] {
			return nil, fmt.Errorf("custom_id %q is empty, too long or there twice", row.CustomID)
		}
		var body wireRequest
		if json.Unmarshal(row.body(), &body) != nil || body.Model == "" || body.Stream {
			return nil, fmt.Errorf("custom_id %s: the body has no model, or is streamed", row.CustomID)
		}
		seen[row.CustomID] = true
	}
	if len(j.rows) == 0 {
		return nil, fmt.Errorf("an empty batch")
	}
	underWay := map[[32]byte]bool{}
	for _, other := range s.jobs {
		if !other.ended {
			for i := range other.rows {
				underWay[sha256.Sum256(other.rows[i].body())] = true
			}
		}
	}
	for i := range j.rows {
		sum := sha256.Sum256(j.rows[i].body())
		if underWay[sum] || s.bodies[sum] > 0 {
			s.stats.SubmittedTwice++
		}
	}
	prefix := "batch_"
	if j.anthropic {
		prefix = "msgbatch_"
	}
	j.ID, j.Round, j.Rows, j.Created = s.id(prefix), len(s.jobs), len(j.rows), s.options.Now()
	s.jobs = append(s.jobs, j)
	s.stats.Submitted++
	s.stats.Rows += len(j.rows)
	return j.object(), nil
}

func (s *BatchServer) job(id string) (*batchJob, error) {
	for _, j := range s.jobs {
		if j.ID == id {
			return j, nil
		}
	}
	return nil, &batchError{http.StatusNotFound, "No batch found with id " + id}
}

func (s *BatchServer) list(anthropic bool) func(http.ResponseWriter, *http.Request) (any, error) {
	return func(_ http.ResponseWriter, r *http.Request) (any, error) {
		var all []any
		var ids []string
		for _, j := range slices.Backward(s.jobs) {
			if j.anthropic == anthropic {
				all, ids = append(all, j.object()), append(ids, j.ID)
			}
		}
		q := r.URL.Query()
		return page(q.Get("after")+q.Get("after_id"), all, ids), nil
	}
}

func (s *BatchServer) status(_ http.ResponseWriter, r *http.Request) (any, error) {
	j, err := s.job(r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	if j.polls++; !j.ended && (j.polls > s.options.Polls || j.cancelling) {
		s.finish(j)
	}
	return j.object(), nil
}

func (s *BatchServer) cancel(_ http.ResponseWriter, r *http.Request) (any, error) {
	j, err := s.job(r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	if j.ended {
		return nil, &batchError{http.StatusConflict, "the batch has ended"}
	}
	j.cancelling = true
	s.stats.Cancelled++
	return j.object(), nil
}

func (s *BatchServer) results(_ http.ResponseWriter, r *http.Request) (any, error) {
	j, err := s.job(r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	if !j.ended {
		return nil, &batchError{http.StatusNotFound, "the results are not there yet"}
	}
	s.stats.Downloads++
	return raw(joined(j.lines)), nil
}
