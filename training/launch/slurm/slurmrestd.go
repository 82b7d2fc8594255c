package slurm

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stillhouse-data/stillhouse/training/launch"
	"github.com/stillhouse-data/stillhouse/training/launch/rest"
)

// A RESTConfig says which slurmrestd runs launches and what their jobs ask for.
type RESTConfig struct {
	// API is slurmrestd's: https://…, or unix:///… of a socket. Its Headers
	// need not name Slurm's own; see User and JWT.
	API rest.Config `yaml:"api"`
	// User and JWT are sent as X-SLURM-USER-NAME and X-SLURM-USER-TOKEN. JWT names
	// a variable, or a file that `scontrol token` renews. Both may be empty where
	// the socket tells who asks.
	User string `yaml:"user"`
	JWT  string `yaml:"jwt"`
	// Version of the API, such as v0.0.43. Default: the newest that slurmrestd
	// says it has.
	Version string `yaml:"version"`
	Job     `yaml:",inline"`
	// Fields are those of a job submission as the API's version names them, such
	// as partition, account, qos, nodes, tres_per_node: gres/gpu:8.
	Fields map[string]any `yaml:"fields"`
}

// ours are fields of a submission that belong to the launch.
var ours = []string{
	"name", "comment", "environment", "script", "dependency", "requeue", "array",
	"current_working_directory", "standard_output", "standard_error", "time_limit",
}

// REST runs launches by slurmrestd.
type REST struct {
	api    *rest.Client
	config RESTConfig
	now    func() time.Time

	mu    sync.Mutex
	known *dialect
	ids   map[string]string // launch id: the job that was last asked for
}

var _ launch.RemoteLauncher = (*REST)(nil)

// A dialect is what a version of the API wants of a submission.
type dialect struct {
	version     string
	listEnv     bool // environment is a list of NAME=VALUE, not an object
	wrapNumbers bool // {"set": true, "number": 1}, not 1
}

var versionName = regexp.MustCompile(`^v0\.0\.([0-9]{1,4})$`)

// NewREST checks a configuration; slurmrestd is not asked yet.
func NewREST(c RESTConfig) (*REST, error) {
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("slurm: %w", err)
	}
	if c.Version != "" && !versionName.MatchString(c.Version) {
		return nil, fmt.Errorf("slurm: version: %q is none like v0.0.43", c.Version)
	}
	for _, name := range ours {
		if _, ok := c.Fields[name]; ok {
			return nil, fmt.Errorf("slurm: fields: %s is set for each launch; leave it out", name)
		}
	}
	api := c.API
	api.Headers = maps.Clone(api.Headers)
	if api.Headers == nil {
		api.Headers = map[string]string{}
	}
	if c.JWT != "" {
		api.Headers["X-SLURM-USER-TOKEN"] = c.JWT
	}
	client, err := rest.New(api)
	if err != nil {
		return nil, fmt.Errorf("slurm: api: %w", err)
	}
	if c.User != "" {
		client = client.With("X-SLURM-USER-NAME", c.User)
	}
	return &REST{api: client, config: c, now: time.Now, ids: map[string]string{}}, nil
}

// Remote implements [launch.RemoteLauncher].
func (*REST) Remote() {}

// Submit implements [launch.Launcher].
func (l *REST) Submit(ctx context.Context, launchID string, spec launch.Spec) (launch.Ref, error) {
	if err := checkSubmission(launchID, &spec); err != nil {
		return launch.Ref{}, fmt.Errorf("submit launch to slurm: %w", err)
	}
	id, err := l.submit(ctx, launchID, &spec)
	if err != nil {
		return launch.Ref{}, fmt.Errorf("submit launch %s to slurm: %w", launchID, err)
	}
	l.remember(launchID, id)
	return launch.Ref{Launcher: Name, LaunchID: launchID, Where: "job " + id + " of " + l.api.URL()}, nil
}

func (l *REST) submit(ctx context.Context, launchID string, spec *launch.Spec) (string, error) {
	d, err := l.dialect(ctx)
	if err != nil {
		return "", err
	}
	found, err := l.find(ctx, d, launchID)
	if err != nil {
		return "", err
	}
	if len(found) > 0 {
		return found[0].id, nil
	}
	body, err := l.submission(d, launchID, spec)
	if err != nil {
		return "", err
	}
	id, refused := l.post(ctx, d, spec, body)
	if refused == nil {
		return id, nil
	}
	// It may be there all the same: the answer was lost.
	found, err = l.find(ctx, d, launchID)
	if err != nil {
		return "", errors.Join(refused, err)
	}
	if len(found) == 0 {
		return "", refused
	}
	return found[0].id, nil
}

func (l *REST) post(ctx context.Context, d *dialect, spec *launch.Spec, body any) (string, error) {
	text, err := l.api.Redacting(spec.Redact).Do(ctx, http.MethodPost, "/slurm/"+d.version+"/job/submit", body)
	if err != nil {
		return "", err
	}
	var a answer
	if err := json.Unmarshal(text, &a); err != nil {
		return "", fmt.Errorf("%s does not answer like slurmrestd: %w", l.api.URL(), err)
	}
	if err := a.err(); err != nil {
		return "", errors.New(rest.Excerpt(spec.Redact(err.Error())))
	}
	if !a.JobID.set || a.JobID.value <= 0 {
		return "", fmt.Errorf("%s names no job", l.api.URL())
	}
	return strconv.FormatInt(a.JobID.value, 10), nil
}

func (l *REST) submission(d *dialect, launchID string, spec *launch.Spec) (any, error) {
	script, err := l.config.script(nil)
	if err != nil {
		return nil, err
	}
	fields := maps.Clone(l.config.Fields)
	if fields == nil {
		fields = map[string]any{}
	}
	log := l.config.logFile(launchID)
	maps.Copy(fields, map[string]any{
		"name": jobName(launchID), "comment": launchID, "dependency": "singleton", "requeue": false,
		"current_working_directory": l.config.Work, "standard_output": log, "standard_error": log,
	})
	vars := l.config.variables(spec)
	if vars["PATH"] == "" { // slurmrestd gives a job no environment of its own
		vars["PATH"] = "/usr/local/bin:/usr/bin:/bin"
	}
	fields["environment"] = vars
	if d.listEnv {
		var list []string
		for _, name := range slices.Sorted(maps.Keys(vars)) {
			list = append(list, name+"="+vars[name])
		}
		fields["environment"] = list
	}
	if limit := l.config.minutes(spec, l.now()); limit > 0 {
		fields["time_limit"] = limit
		if d.wrapNumbers {
			fields["time_limit"] = map[string]any{"set": true, "number": limit}
		}
	}
	return map[string]any{"script": script, "job": fields}, nil
}

// find lists the launch's jobs that the controller remembers, the newest first.
// Jobs of other users count for nothing.
func (l *REST) find(ctx context.Context, d *dialect, launchID string) ([]job, error) {
	var found []job
	err := l.api.Stream(ctx, "/slurm/"+d.version+"/jobs", func(r io.Reader) error {
		return eachJob(r, func(rec *record) {
			if l.isOurs(rec, launchID) {
				found = append(found, rec.job())
			}
		})
	})
	if err != nil {
		l.forget(err)
		return nil, fmt.Errorf("list jobs: %w", err)
	}
	slices.Reverse(found) // ids grow
	return found, nil
}

func (l *REST) isOurs(rec *record, launchID string) bool {
	return rec.Name == jobName(launchID) && (l.config.User == "" || rec.User == "" || rec.User == l.config.User)
}

// jobs asks for the job that was submitted or seen last, which is cheap, and
// looks through all of them where that is not known or gone.
func (l *REST) jobs(ctx context.Context, launchID string) ([]job, error) {
	d, err := l.dialect(ctx)
	if err != nil {
		return nil, err
	}
	if id := l.remembered(launchID); id != "" {
		var found []job
		err := l.api.Stream(ctx, "/slurm/"+d.version+"/job/"+id, func(r io.Reader) error {
			return eachJob(r, func(rec *record) {
				if l.isOurs(rec, launchID) {
					found = append(found, rec.job())
				}
			})
		})
		// One that is about to end without the claim may not be the only one.
		if s, ok := judge(found); err == nil && ok && s.Phase != launch.Unknown {
			return found, nil
		}
	}
	found, err := l.find(ctx, d, launchID)
	if err == nil && len(found) > 0 {
		l.remember(launchID, found[0].id)
	}
	return found, err
}

// Status implements [launch.Launcher].
func (l *REST) Status(ctx context.Context, ref launch.Ref) (launch.State, error) {
	if err := checkID(ref.LaunchID); err != nil {
		return launch.State{}, fmt.Errorf("status of launch: %w", err)
	}
	found, err := l.jobs(ctx, ref.LaunchID)
	if err != nil {
		return launch.State{}, fmt.Errorf("status of launch %s: %w", ref.LaunchID, err)
	}
	if s, ok := judge(found); ok {
		return s, nil
	}
	return forgotten(ref.LaunchID), nil
}

// Cancel implements [launch.Launcher]. Slurm sends SIGTERM, and SIGKILL after
// its KillWait.
func (l *REST) Cancel(ctx context.Context, ref launch.Ref) error {
	if err := checkID(ref.LaunchID); err != nil {
		return fmt.Errorf("cancel launch: %w", err)
	}
	d, err := l.dialect(ctx)
	if err != nil {
		return fmt.Errorf("cancel launch %s: %w", ref.LaunchID, err)
	}
	found, err := l.find(ctx, d, ref.LaunchID)
	if err != nil {
		return fmt.Errorf("cancel launch %s: %w", ref.LaunchID, err)
	}
	for _, j := range found {
		if j.state().Phase.Final() {
			continue
		}
		text, err := l.api.Do(ctx, http.MethodDelete, "/slurm/"+d.version+"/job/"+j.id, nil)
		var a answer
		if err == nil && json.Unmarshal(text, &a) == nil {
			err = a.err()
		}
		if err != nil {
			return fmt.Errorf("cancel launch %s: job %s: %w", ref.LaunchID, j.id, err)
		}
	}
	return nil
}

// Logs implements [launch.Launcher]. The log is a file of the cluster: it is
// read where its folder is there on this machine too.
func (l *REST) Logs(_ context.Context, ref launch.Ref, tail int) (string, error) {
	if err := checkID(ref.LaunchID); err != nil {
		return "", fmt.Errorf("logs of launch: %w", err)
	}
	text, err := localLog(&l.config.Job, ref.LaunchID, tail)
	if err != nil {
		return "", fmt.Errorf("logs of launch %s: %w", ref.LaunchID, err)
	}
	return text, nil
}

func (l *REST) remember(launchID, id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ids[launchID] = id
}

func (l *REST) remembered(launchID string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ids[launchID]
}

// forget looks for the API's version anew after an answer that it is not there:
// slurmrestd was replaced by a newer one.
func (l *REST) forget(err error) {
	var status *rest.StatusError
	if errors.As(err, &status) && status.Status == http.StatusNotFound {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.known = nil
	}
}

// dialect asks once which versions of the API there are, and what the one that
// we speak wants.
func (l *REST) dialect(ctx context.Context) (*dialect, error) {
	l.mu.Lock()
	known := l.known
	l.mu.Unlock()
	if known != nil {
		return known, nil
	}
	text, err := l.api.Do(ctx, http.MethodGet, "/openapi/v3", nil)
	if err != nil {
		return nil, fmt.Errorf("ask which versions of the API there are: %w", err)
	}
	d, err := discover(text, l.config.Version)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.api.URL(), err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known = d
	return d, nil
}

// discover reads an OpenAPI document.
func discover(text []byte, want string) (*dialect, error) {
	var doc struct {
		Paths      map[string]map[string]json.RawMessage `json:"paths"`
		Components struct {
			Schemas map[string]*schema `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("its OpenAPI document can't be read: %w", err)
	}
	var versions []string
	for path := range doc.Paths {
		version, ok := strings.CutSuffix(strings.TrimPrefix(path, "/slurm/"), "/job/submit")
		if ok && versionName.MatchString(version) {
			versions = append(versions, version)
		}
	}
	slices.SortFunc(versions, func(a, b string) int { return cmp.Compare(versionNumber(a), versionNumber(b)) })
	if len(versions) == 0 {
		return nil, errors.New("it is no slurmrestd, or its plugin openapi/slurmctld is not loaded: no /slurm/v0.0.N/job/submit")
	}
	d := &dialect{version: versions[len(versions)-1]}
	if want != "" {
		if !slices.Contains(versions, want) {
			return nil, fmt.Errorf("it speaks %s, not %s", strings.Join(versions, ", "), want)
		}
		d.version = want
	}
	d.listEnv, d.wrapNumbers = versionNumber(d.version) >= 39, versionNumber(d.version) >= 39
	var post struct {
		Body struct {
			Content map[string]struct {
				Schema *schema `json:"schema"`
			} `json:"content"`
		} `json:"requestBody"`
	}
	if err := json.Unmarshal(doc.Paths["/slurm/"+d.version+"/job/submit"]["post"], &post); err != nil {
		return d, nil //nolint:nilerr // the version tells as well
	}
	all := doc.Components.Schemas
	job := post.Body.Content["application/json"].Schema.in(all).property("job", all)
	if env := job.property("environment", all); env != nil && env.Type != "" {
		d.listEnv = env.Type == "array"
	}
	if limit := job.property("time_limit", all); limit != nil && limit.Type != "" {
		d.wrapNumbers = limit.Type == "object"
	}
	return d, nil
}

func versionNumber(version string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(version, "v0.0."))
	if err != nil {
		return -1
	}
	return n
}

// A schema is as much of an OpenAPI schema as tells a list from an object.
type schema struct {
	Ref        string             `json:"$ref"`
	Type       string             `json:"type"`
	Properties map[string]*schema `json:"properties"`
}

// in follows references; nil where they lead nowhere.
func (s *schema) in(all map[string]*schema) *schema {
	for range 8 {
		if s == nil || s.Ref == "" {
			return s
		}
		s = all[strings.TrimPrefix(s.Ref, "#/components/schemas/")]
	}
	return nil
}

func (s *schema) property(name string, all map[string]*schema) *schema {
	if s == nil {
		return nil
	}
	return s.Properties[name].in(all)
}
