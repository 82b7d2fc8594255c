package slurm

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// A fake is slurmrestd with shapes of two of its versions: v0.0.38 as release
// 22.05.8 gave them to test/launchers, v0.0.44 by the models that are generated
// from release 25.11's own OpenAPI document.
type fake struct {
	*httptest.Server
	version string

	mu      sync.Mutex
	jobs    []*sent
	headers []http.Header
	paths   []string
	deleted []string
	before  func(http.ResponseWriter, *http.Request) bool // true: it has answered
	after   func(http.ResponseWriter, *http.Request) bool // of a POST that was taken
}

type sent struct {
	id     int
	script string
	fields map[string]any
	shape  string // of the job, without id and name
}

const (
	oldPending = `"job_state": "PENDING", "state_reason": "Resources", "exit_code": 0, "start_time": 0, "end_time": 0, "user_name": "me"`
	newPending = `"job_state": ["PENDING"], "state_reason": "Resources", "exit_code": {"status": ["SUCCESS"], "return_code": {"set": true, "infinite": false, "number": 0}, "signal": {"id": {"set": false, "infinite": false, "number": 0}, "name": ""}}, "start_time": {"set": true, "infinite": false, "number": 0}, "end_time": {"set": true, "infinite": false, "number": 0}, "user_name": "me"`
	meta       = `"meta": {"Slurm": {"release": "22.05.8"}}, "warnings": []`
)

const oldSchema = `{"paths": {
 "/slurm/v0.0.37/job/submit": {"post": {}},
 "/slurm/v0.0.38/job/submit": {"post": {"requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/v0.0.38_job_submission"}}}}}},
 "/slurm/v0.0.38/jobs": {"get": {}}, "/openapi/v3": {"get": {}}},
 "components": {"schemas": {
  "v0.0.38_job_submission": {"properties": {"script": {"type": "string"}, "job": {"$ref": "#/components/schemas/v0.0.38_job_properties"}}},
  "v0.0.38_job_properties": {"properties": {"environment": {"type": "object"}, "time_limit": {"type": "integer"}}}}}}`

const newSchema = `{"paths": {
 "/slurm/v0.0.42/job/submit": {"post": {}}, "/slurm/v0.0.9/job/submit": {"post": {}}, "/slurmdb/v0.0.99/jobs/": {"get": {}},
 "/slurm/v0.0.44/job/submit": {"post": {"requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/v0.0.44_job_submit_req"}}}}}}},
 "components": {"schemas": {
  "v0.0.44_job_submit_req": {"type": "object", "properties": {"job": {"$ref": "#/components/schemas/v0.0.44_job_desc_msg"}}},
  "v0.0.44_job_desc_msg": {"type": "object", "properties": {"environment": {"$ref": "#/components/schemas/v0.0.44_string_array"}, "time_limit": {"$ref": "#/components/schemas/v0.0.44_uint32_no_val_struct"}}},
  "v0.0.44_string_array": {"type": "array"}, "v0.0.44_uint32_no_val_struct": {"type": "object"}}}}`

func newFake(t *testing.T, version string) *fake {
	t.Helper()
	f := &fake{version: version}
	schema, pending := oldSchema, oldPending
	if version == "v0.0.44" {
		schema, pending = newSchema, newPending
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /openapi/v3", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, schema) })
	mux.HandleFunc("GET /slurm/"+version+"/jobs", func(w http.ResponseWriter, _ *http.Request) {
		list := []string{`{"job_id": 1, "name": "another", "job_state": "RUNNING", "user_name": "me"}`}
		for _, j := range f.jobs {
			list = append(list, j.json())
		}
		fmt.Fprintf(w, `{%s, "errors": [], "jobs": [%s]}`, meta, strings.Join(list, ","))
	})
	mux.HandleFunc("GET /slurm/"+version+"/job/{id}", func(w http.ResponseWriter, r *http.Request) {
		for _, j := range f.jobs {
			if fmt.Sprint(j.id) == r.PathValue("id") {
				fmt.Fprintf(w, `{%s, "errors": [], "jobs": [%s]}`, meta, j.json())
				return
			}
		}
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintf(w, `{%s, "errors": [{"description": "Unable to find JobId=99", "error_number": 2017, "error": "Invalid job id specified", "source": "slurm_load_job"}], "jobs": []}`, meta)
	})
	mux.HandleFunc("POST /slurm/"+version+"/job/submit", func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Script string
			Job    map[string]any
		}
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			t.Error(err)
		}
		j := &sent{id: 17 + len(f.jobs), script: in.Script, fields: in.Job, shape: pending}
		f.jobs = append(f.jobs, j)
		if f.after != nil && f.after(w, r) {
			return
		}
		fmt.Fprintf(w, `{%s, "errors": [], "job_id": %d, "step_id": "BATCH", "job_submit_user_msg": ""}`, meta, j.id)
	})
	mux.HandleFunc("DELETE /slurm/"+version+"/job/{id}", func(w http.ResponseWriter, r *http.Request) {
		f.deleted = append(f.deleted, r.PathValue("id"))
		fmt.Fprintf(w, `{%s, "errors": []}`, meta)
	})
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.headers, f.paths = append(f.headers, r.Header.Clone()), append(f.paths, r.Method+" "+r.URL.Path)
		if f.before != nil && f.before(w, r) {
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(f.Close)
	return f
}

func (j *sent) json() string {
	return fmt.Sprintf(`{"job_id": %d, "name": %q, %s}`, j.id, j.fields["name"], j.shape)
}

func (f *fake) set(before, after func(http.ResponseWriter, *http.Request) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before, f.after = before, after
}

// is sets the shape of the job that was submitted last.
func (f *fake) is(shape string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.jobs[len(f.jobs)-1].shape = shape
}

// respond gives every request of a method an answer of its own.
func respond(method string, status int, text string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != method || r.URL.Path == "/openapi/v3" {
			return false
		}
		w.WriteHeader(status)
		io.WriteString(w, text)
		return true
	}
}

func hangUp(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) }

func digest(c string) string { return strings.Repeat(c, 64) }
