package slurm

import (
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/training"
	"github.com/stillhouse-data/stillhouse/training/launch"
	"github.com/stillhouse-data/stillhouse/training/launch/rest"
)

const signature = "X-Amz-Signature=0123456789abcdef"

var now = time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)

func spec() launch.Spec {
	return launch.Spec{
		Set: map[string]string{"HF_HOME": "/models"}, Deadline: now.Add(90*time.Minute + time.Second),
		Remote: &launch.Remote{
			BundleURL: "https://store.example/bundle.tar.gz?" + signature, BundleSHA256: digest("b"),
			ClaimURL: "https://store.example/claim.json?" + signature, ResultURL: "https://store.example/result.json?" + signature,
		},
	}
}

func at(t *testing.T, f *fake) *REST {
	t.Helper()
	t.Setenv("SLURM_JWT_OF_TEST", "a.b.c")
	l, err := NewREST(RESTConfig{
		API: rest.Config{URL: f.URL}, User: "me", JWT: "SLURM_JWT_OF_TEST", Job: Job{Work: "/scratch/me", Setup: "module load cuda\n"},
		Fields: map[string]any{"partition": "gpu", "tres_per_node": "gres/gpu:8"},
	})
	if err != nil {
		t.Fatal(err)
	}
	l.now = func() time.Time { return now }
	return l
}

func TestRESTSubmit(t *testing.T) {
	id := digest("a")
	for version, want := range map[string]map[string]any{
		"v0.0.38": {"time_limit": 91.0},
		"v0.0.44": {"time_limit": map[string]any{"set": true, "number": 91.0}},
	} {
		t.Run(version, func(t *testing.T) {
			f := newFake(t, version)
			l := at(t, f)
			ref, err := l.Submit(t.Context(), id, spec())
			if err != nil {
				t.Fatal(err)
			}
			if ref.Launcher != "slurm" || ref.LaunchID != id || ref.Where != "job 17 of "+f.URL {
				t.Errorf("ref is %+v", ref)
			}
			j := f.jobs[0]
			log := "/scratch/me/stillhouse-" + id + "-%j.log"
			for name, value := range map[string]any{
				"name": "stillhouse-" + id, "comment": id, "dependency": "singleton", "requeue": false, "partition": "gpu", "tres_per_node": "gres/gpu:8",
				"current_working_directory": "/scratch/me", "standard_output": log, "standard_error": log, "time_limit": want["time_limit"],
			} {
				if !reflect.DeepEqual(j.fields[name], value) {
					t.Errorf("%s is %v, want %v", name, j.fields[name], value)
				}
			}
			env := []string{}
			switch e := j.fields["environment"].(type) {
			case map[string]any:
				for name, value := range e {
					env = append(env, name+"="+value.(string))
				}
			case []any:
				for _, pair := range e {
					env = append(env, pair.(string))
				}
			}
			if _, list := j.fields["environment"].([]any); list != (version == "v0.0.44") {
				t.Errorf("environment is %T", j.fields["environment"])
			}
			for _, pair := range []string{"STILLHOUSE_BUNDLE_URL=" + spec().Remote.BundleURL, "HF_HOME=/models", "STILLHOUSE_WORK=/scratch/me", "PATH=/usr/local/bin:/usr/bin:/bin"} {
				if !slices.Contains(env, pair) {
					t.Errorf("the environment has no %s", pair)
				}
			}
			if strings.Contains(j.script, signature) || !strings.HasPrefix(j.script, "#!/bin/sh\nmodule load cuda\nexec ") {
				t.Errorf("the script is %.200q", j.script)
			}
			for _, h := range f.headers {
				if h.Get("X-SLURM-USER-NAME") != "me" || h.Get("X-SLURM-USER-TOKEN") != "a.b.c" {
					t.Errorf("headers are %v", h)
				}
			}
			// Again, by this process and by another one.
			for _, again := range []*REST{l, at(t, f)} {
				if got, err := again.Submit(t.Context(), id, spec()); err != nil || got != ref || len(f.jobs) != 1 {
					t.Errorf("again: %+v, %v; %d jobs", got, err, len(f.jobs))
				}
			}
		})
	}
}

func TestRESTSubmitWithoutAnAnswer(t *testing.T) {
	for _, tc := range []struct {
		name          string
		before, after func(http.ResponseWriter, *http.Request) bool
		want          string // part of the error; none: it is adopted
		jobs          int
	}{
		{"lost after it was taken", nil, hangUp, "", 1},
		{"gateway gives up after it was taken", nil, respond(http.MethodPost, http.StatusGatewayTimeout, ""), "", 1},
		{"refused", respond(http.MethodPost, http.StatusOK, `{"errors": [{"error": "Invalid account or account/partition combination specified", "error_number": 2045}], "job_id": 0}`), nil, "Invalid account", 0},
		{"refused with a status", respond(http.MethodPost, http.StatusInternalServerError, `{"errors": [{"error": "no", "description": "https://store.example/claim.json?`+signature+`"}]}`), nil, "HTTP status 500", 0},
		{"names no job", respond(http.MethodPost, http.StatusOK, `{"errors": []}`), nil, "names no job", 0},
		{"no list", respond(http.MethodGet, http.StatusOK, `{"errors": [{"error": "Unable to contact slurm controller", "error_number": 1800}], "jobs": []}`), nil, "Unable to contact", 0},
		{"half a list", respond(http.MethodGet, http.StatusOK, `{"errors": [], "jobs": [{"job_id": 1}`), nil, "EOF", 0},
		{"another page", respond(http.MethodGet, http.StatusOK, `[]`), nil, "slurmrestd", 0},
		{"token is over", respond(http.MethodGet, http.StatusUnauthorized, "Authentication failure"), nil, "HTTP status 401", 0},
		{"down", hangUp, nil, "EOF", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFake(t, "v0.0.44")
			l := at(t, f)
			f.set(tc.before, tc.after)
			_, err := l.Submit(t.Context(), digest("a"), spec())
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if err != nil && strings.Contains(err.Error(), signature) {
				t.Errorf("the error holds a URL: %v", err)
			}
			f.set(nil, nil)
			if len(f.jobs) != tc.jobs {
				t.Errorf("%d jobs, want %d", len(f.jobs), tc.jobs)
			}
			if _, err := l.Submit(t.Context(), digest("a"), spec()); err != nil || len(f.jobs) != 1 {
				t.Errorf("then: %v; %d jobs", err, len(f.jobs))
			}
		})
	}
}

func TestRESTStatus(t *testing.T) {
	code := func(status, number string) string {
		return `"exit_code": {"status": ["` + status + `"], "return_code": {"set": true, "infinite": false, "number": ` + number + `}, "signal": {"id": {"set": false, "infinite": false, "number": 0}, "name": ""}}`
	}
	for _, tc := range []struct {
		shape  string
		phase  launch.Phase
		code   int // -1: none
		reason string
	}{
		{oldPending, launch.Running, -1, "PENDING: Resources"},
		{newPending, launch.Running, -1, "PENDING: Resources"},
		{`"job_state": "RUNNING", "state_reason": "None"`, launch.Running, -1, "RUNNING"},
		{`"job_state": "COMPLETED", "exit_code": 0`, launch.Succeeded, 0, ""},
		{`"job_state": "FAILED", "state_reason": "NonZeroExitCode", "exit_code": 1792`, launch.Failed, 7, "Slurm: FAILED: NonZeroExitCode"},
		{`"job_state": "FAILED", "state_reason": "NonZeroExitCode", "exit_code": 19200`, launch.Unknown, training.ExitClaimed, "an earlier run has claimed the launch"},
		{`"job_state": "FAILED", "state_reason": "None", "exit_code": 9`, launch.Failed, -1, "Slurm: FAILED"},
		{`"job_state": ["COMPLETED"], ` + code("SUCCESS", "0"), launch.Succeeded, 0, ""},
		{`"job_state": ["COMPLETED", "COMPLETING"]`, launch.Running, -1, "COMPLETED COMPLETING"},
		{`"job_state": ["FAILED"], "state_reason": "NonZeroExitCode", ` + code("ERROR", "9"), launch.Failed, 9, "Slurm: FAILED: NonZeroExitCode"},
		{`"job_state": ["CANCELLED"], ` + code("ERROR", "143"), launch.Cancelled, 143, "cancelled"},
		{`"job_state": ["TIMEOUT"], "state_reason": "TimeLimit"`, launch.Failed, -1, "Slurm: TIMEOUT: TimeLimit"},
		{`"job_state": ["OUT_OF_MEMORY"]`, launch.Failed, -1, "Slurm: OUT_OF_MEMORY"},
		{`"job_state": ["NODE_FAIL"]`, launch.Failed, -1, "Slurm: NODE_FAIL"},
		{`"job_state": ["BOOT_FAIL"]`, launch.Failed, -1, "Slurm: BOOT_FAIL"},
		{`"job_state": ["DEADLINE"]`, launch.Failed, -1, "Slurm: DEADLINE"},
		{`"job_state": ["NODE_FAIL", "REQUEUED"]`, launch.Running, -1, "NODE_FAIL REQUEUED"},
		{`"job_state": ["PREEMPTED"]`, launch.Running, -1, "PREEMPTED"},
		{`"job_state": "REQUEUED"`, launch.Running, -1, "REQUEUED"},
		{`"job_state": ["SUSPENDED"]`, launch.Running, -1, "SUSPENDED"},
		{`"job_state": ["SOMETHING_NEW"]`, launch.Running, -1, "SOMETHING_NEW"},
		{`"job_state": []`, launch.Running, -1, ""},
	} {
		f := newFake(t, "v0.0.44")
		l := at(t, f)
		ref, err := l.Submit(t.Context(), digest("a"), spec())
		if err != nil {
			t.Fatal(err)
		}
		f.is(tc.shape + `, "start_time": {"set": true, "infinite": false, "number": 1796098328}, "end_time": 1796098331`)
		for _, who := range []*REST{l, at(t, f)} { // by its number, and by its name
			s, err := who.Status(t.Context(), ref)
			got := -1
			if s.ExitCode != nil {
				got = *s.ExitCode
			}
			if err != nil || s.Phase != tc.phase || got != tc.code || s.Reason != tc.reason {
				t.Errorf("%s: %+v with code %d, %v, want %s %d %q", tc.shape, s, got, err, tc.phase, tc.code, tc.reason)
			}
			if tc.phase == launch.Succeeded && (s.Started.Unix() != 1796098328 || s.Ended.Unix() != 1796098331) {
				t.Errorf("%s: from %v to %v", tc.shape, s.Started, s.Ended)
			}
		}
	}
}

// A job that is followed costs the controller one look at it, not at all jobs.
func TestRESTFollowsOneJob(t *testing.T) {
	f := newFake(t, "v0.0.38")
	l := at(t, f)
	ref, err := l.Submit(t.Context(), digest("a"), spec())
	if err != nil {
		t.Fatal(err)
	}
	f.paths = nil
	for range 3 {
		if _, err := l.Status(t.Context(), ref); err != nil {
			t.Fatal(err)
		}
	}
	if want := slices.Repeat([]string{"GET /slurm/v0.0.38/job/17"}, 3); !slices.Equal(f.paths, want) {
		t.Errorf("asked %v", f.paths)
	}
}

func TestRESTForgotten(t *testing.T) {
	f := newFake(t, "v0.0.38")
	l := at(t, f)
	ref, err := l.Submit(t.Context(), digest("a"), spec())
	if err != nil {
		t.Fatal(err)
	}
	for _, before := range []func(http.ResponseWriter, *http.Request) bool{hangUp, respond(http.MethodGet, http.StatusServiceUnavailable, "")} {
		f.set(before, nil)
		if s, err := l.Status(t.Context(), ref); err == nil {
			t.Errorf("a broken answer is taken for %+v", s)
		}
	}
	f.set(nil, nil)
	f.jobs = nil
	if s, err := l.Status(t.Context(), ref); err != nil || s.Phase != launch.Unknown || !strings.Contains(s.Reason, "MinJobAge") {
		t.Errorf("%+v, %v", s, err)
	}
	if err := l.Cancel(t.Context(), ref); err != nil || len(f.deleted) > 0 {
		t.Errorf("%v; deleted %v", err, f.deleted)
	}
}

// Somebody else's job of the name is not the launch; a second one of our own
// that lost the claim says nothing of the first.
func TestRESTJobsOfOneName(t *testing.T) {
	f := newFake(t, "v0.0.38")
	l := at(t, f)
	id := digest("a")
	name := map[string]any{"name": jobName(id)}
	f.jobs = []*sent{{id: 7, fields: name, shape: `"job_state": "RUNNING", "user_name": "eve"`}}
	ref, err := l.Submit(t.Context(), id, spec())
	if err != nil || len(f.jobs) != 2 {
		t.Fatalf("%v; %d jobs", err, len(f.jobs))
	}
	f.jobs = append(f.jobs, &sent{id: 19, fields: name, shape: `"job_state": "FAILED", "exit_code": 19200, "user_name": "me"`})
	for _, tc := range []struct {
		first string
		want  launch.Phase
	}{
		{`"job_state": "RUNNING"`, launch.Running},
		{`"job_state": "COMPLETED", "exit_code": 0`, launch.Succeeded},
		{`"job_state": "FAILED", "exit_code": 2304`, launch.Failed},
		{`"job_state": "FAILED", "exit_code": 19200`, launch.Unknown},
	} {
		f.jobs[1].shape = tc.first + `, "user_name": "me"`
		for _, who := range []*REST{l, at(t, f)} {
			if s, err := who.Status(t.Context(), ref); err != nil || s.Phase != tc.want {
				t.Errorf("beside %s: %+v, %v", tc.first, s, err)
			}
		}
	}
	f.jobs[1].shape = `"job_state": "RUNNING", "user_name": "me"`
	if err := l.Cancel(t.Context(), ref); err != nil || !slices.Equal(f.deleted, []string{"18"}) {
		t.Errorf("%v; deleted %v", err, f.deleted)
	}
}

func TestDiscover(t *testing.T) {
	for _, tc := range []struct {
		text, want string
		got        dialect
		err        string
	}{
		{oldSchema, "", dialect{"v0.0.38", false, false}, ""},
		{newSchema, "", dialect{"v0.0.44", true, true}, ""},
		{newSchema, "v0.0.42", dialect{"v0.0.42", true, true}, ""},
		{oldSchema, "v0.0.37", dialect{"v0.0.37", false, false}, ""},
		{newSchema, "v0.0.50", dialect{}, "not v0.0.50"},
		{`{"paths": {"/slurmdb/v0.0.38/jobs": {}}}`, "", dialect{}, "no slurmrestd"},
		{`<html>`, "", dialect{}, "can't be read"},
	} {
		d, err := discover([]byte(tc.text), tc.want)
		if tc.err == "" && (err != nil || *d != tc.got) || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
			t.Errorf("%.60s: %+v, %v, want %+v, %q", tc.text, d, err, tc.got, tc.err)
		}
	}
}

func FuzzEachJob(f *testing.F) {
	f.Add(`{"errors": [], "jobs": [{"job_id": 1, ` + newPending + `}]}`)
	f.Add(`{"jobs": [{"job_id": 1, ` + oldPending + `}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		err := eachJob(strings.NewReader(text), func(r *record) {
			j := r.job()
			if s := j.state(); s.ExitCode != nil && (*s.ExitCode < 0 || *s.ExitCode > 255) {
				t.Errorf("exit code %d", *s.ExitCode)
			}
		})
		if err == nil && !strings.Contains(text, "jobs") {
			t.Errorf("%q is taken for a list of jobs", text)
		}
	})
}
