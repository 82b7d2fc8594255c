package activities

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/dedup"
	"github.com/stillhouse-data/stillhouse/datasets/filter"
	"github.com/stillhouse-data/stillhouse/datasets/merge"
	"github.com/stillhouse-data/stillhouse/internal/answers"
	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
	"github.com/stillhouse-data/stillhouse/internal/wire"
	"github.com/stillhouse-data/stillhouse/teachers"
)

const (
	maxRecipe  = 1 << 20
	maxSources = 64 << 20
	maxPlan    = 256 << 20
	// keptRuntimes bounds the builds that a worker holds ready.
	keptRuntimes = 16
)

// A runtime is a recipe made ready to work: its teachers, checks and policy.
// It is the same on every worker, and safe for concurrent use.
type runtime struct {
	recipe   *recipe.Recipe
	sources  *Sources
	teachers map[string]*teacher
	filters  []step
	policy   merge.Policy
	near     *dedup.AnswerComparer // of answers to one task; nil: equal ones alone count once
	accept   string

	stats      *filter.Stats    // of all answers of the build, where a filter needs them
	measuredAs *measuredRuntime // that has them

	check      *check // of all verifiers
	checkCount int
	paid       []*paidCheck // of them those that ask a teacher, depth first
	pairJudge  *paidCheck   // who compares for the merge policy; nil: nobody

	runner   runnerOf // of the answers' code
	checkers Checkers // of the recipe's commands

	// keys gives teachers their keys and the rules of this worker; nil where
	// nobody is asked.
	keys func(*runtime)

	mu    sync.Mutex
	plans []*loadedPlan // of the builds that use it, newest last
}

// keptPlans bounds the plans of one recipe that a worker holds: of a build and
// of a preview beside it.
const keptPlans = 4

// A loadedPlan is a plan with the batches that were cut of it.
type loadedPlan struct {
	key     string
	plan    *Plan
	rt      *runtime           // that asks anew what the plan asks anew
	batches map[string][]batch // by teacher
}

type step struct {
	when   *recipe.When
	filter filter.Filter
}

// late tells whether a filter looks at the verdict, so that it comes after the
// verifiers.
func (s *step) late() bool {
	return filter.Late(s.filter) || s.when.Uses(recipe.VerdictWords...)
}

// A teacher is one of a recipe's teachers, ready to be asked.
type teacher struct {
	spec     *recipe.Teacher
	config   *teachers.Config
	endpoint string // identity, 32 hex digits
	price    *teachers.Price
	priceID  string         // of price
	logprobs map[string]any // parameters that ask for logprobs, where the recipe wants them
	gives    bool           // logprobs
	limited  string         // endpoint whose limits hold, where it is not its own
	anew     Anew           // what the plan asks it anew

	mu       sync.Mutex
	builders map[string]*teachers.Builder // by effort
}

// newRuntime makes a recipe ready. The sources are needed for the identity of
// recorded teachers. A fault of the recipe is a *[recipe.Error] at its place.
func newRuntime(r *recipe.Recipe, files *Sources) (*runtime, error) {
	rt := &runtime{recipe: r, sources: files, teachers: map[string]*teacher{}, accept: r.Merge.Accept}
	for i := range r.Teachers {
		t := newTeacher(&r.Teachers[i], files)
		rt.teachers[t.spec.ID] = t
	}
	err := rt.askLogprobs()
	if err != nil {
		return nil, err
	}
	checks := checkMaker{r: r, rt: rt}
	if rt.check, rt.checkCount, err = checks.make(); err != nil {
		return nil, err
	}
	if err := rt.prepareJudges(); err != nil {
		return nil, err
	}
	if rt.filters, err = filtersOf(r); err != nil {
		return nil, err
	}
	if rt.policy, err = rt.newPolicy(); err != nil {
		return nil, err
	}
	return rt, nil
}

func newTeacher(spec *recipe.Teacher, files *Sources) *teacher {
	t := &teacher{spec: spec, builders: map[string]*teachers.Builder{}}
	if p := spec.Price; p != nil {
		t.price = &teachers.Price{Input: p.Input, Output: p.Output, AsOf: string(p.AsOf), Source: p.Source}
		if p.CachedInput != nil {
			t.price.CachedInput = *p.CachedInput
		}
		if p.CacheWrite != nil {
			t.price.CacheWrite = *p.CacheWrite
		}
		t.price.BatchDiscount, t.price.GPUHour = p.BatchDiscount, p.GPUHour
		t.priceID = t.price.ID()
	}
	if spec.API == recipe.APIRecorded {
		t.endpoint = teachers.EndpointIdentity(spec.API, "", recordedIdentity(spec, files))
		return t
	}
	t.endpoint = teachers.EndpointIdentity(spec.API, spec.BaseURL, spec.Identity)
	profile := spec.EndpointProfile()
	t.config = &teachers.Config{
		ID: spec.ID, API: teachers.OnlineAPI(spec.API), BaseURL: spec.BaseURL, Model: spec.Model, Identity: spec.Identity,
		Headers: spec.Headers, Price: t.price, Profile: &profile,
		Limits: teachers.Limits{
			Concurrency: spec.Limits.Concurrency, RPM: float64(spec.Limits.RPM), TPM: float64(spec.Limits.TPM),
			Connect: spec.Limits.Connect, FirstByte: spec.Limits.FirstByte, Idle: spec.Limits.Idle,
			NoProgress: spec.Limits.NoProgress, Total: spec.Limits.Total,
			MaxBytes: int64(spec.Limits.MaxBytes),
		},
	}
	return t
}

// recordedIdentity is what recorded answers are kept under: the recipe's
// identity, or the files and how they are read.
func recordedIdentity(spec *recipe.Teacher, files *Sources) string {
	if spec.Identity != "" {
		return spec.Identity
	}
	h := sha256.New()
	fields, _ := json.Marshal(spec.Fields) // a struct of strings
	h.Write(fields)
	for _, f := range files.Recorded[spec.ID] {
		fmt.Fprintf(h, "\x00%s\x00%s\x00%s", f.SHA256, f.URL, f.ETag)
	}
	return "recorded:" + hex.EncodeToString(h.Sum(nil))
}

// An asked is one ask of a task, with the request that would be sent.
type asked struct {
	ask     answers.Ask
	older   []answers.Ask     // in earlier epochs, the newest first
	request *teachers.Request // nil for a recorded teacher
	task    *datasets.Task
	claim   *claim // while a batch has it in hand
	turn    *turn  // among all that the teacher is asked
	told    int    // attempts that records tell of already

	logprobs *teachers.Logprobs // of its answer, while it is refined
	got      *answers.Record    // what asking it brought
}

// enter takes a place in the order of the teacher's asks.
func (a *asked) enter(q *turns) { a.turn = q.enter(taskChain(a.task).at(a.task.Effort)) }

// asks lists the asks of a task to this teacher, one per sample.
func (t *teacher) asks(task *datasets.Task, samples int) ([]asked, error) {
	out := make([]asked, samples)
	for i := range out {
		one, err := t.ask(task, i)
		if err != nil {
			return nil, err
		}
		out[i] = one
	}
	return out, nil
}

// ask is one sample of a task.
func (t *teacher) ask(task *datasets.Task, sample int) (asked, error) {
	if t.config == nil {
		return asked{ask: recordedAsk(t.endpoint, &task.Prompt, sample), task: task}, nil
	}
	b, err := t.builder(task.Effort)
	if err != nil {
		return asked{}, err
	}
	req, err := b.Request(&task.Prompt, sample)
	if err != nil {
		// It depends on recipe and task alone, so trying again is no use.
		return asked{}, invalidRecipe("teacher %s cannot be asked the prompt of %s: %v", t.spec.ID, task.Source, err)
	}
	one := asked{request: req, task: task}
	one.ask, one.older = t.epochs(identityOf(t, req))
	return one, nil
}

// identityOf is what a request is known by, in the recipe's epoch.
func identityOf(t *teacher, req *teachers.Request) answers.Identity {
	return answers.Identity{
		Endpoint: t.endpoint, Epoch: t.spec.Epoch, Body: req.Body, CapField: req.CapField, Cap: req.Cap,
		Headers: req.AnswerHeaders, Images: req.Images, Sample: req.Sample,
	}
}

// recordedAsk is how a recorded answer is found: by the prompt's messages. The
// system text stays out, as recordings seldom hold it.
func recordedAsk(endpoint string, p *chat.Prompt, sample int) answers.Ask {
	body := append([]byte(nil), `{"messages":`...)
	body = chat.AppendMessages(body, p.Messages)
	body = append(body, '}')
	return answers.Identify(answers.Identity{Endpoint: endpoint, Body: body, Sample: sample})
}

// atFirst is how many asks are under way until the first answer.
func (t *teacher) atFirst() int {
	if n := t.spec.Limits.Concurrency; n > 0 {
		return n
	}
	return trial
}

func (t *teacher) builder(effort string) (*teachers.Builder, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if b := t.builders[effort]; b != nil {
		return b, nil
	}
	b, err := teachers.NewBuilder(t.config, t.params(effort))
	if err != nil {
		return nil, invalidRecipe("teacher %s at effort %s: %v", t.spec.ID, effort, err)
	}
	t.builders[effort] = b
	return b, nil
}

// runtime loads a build's recipe and sources from the store, once per worker.
func (a *Activities) runtime(ctx context.Context, ref wire.BuildRef) (*runtime, error) {
	a.begins(ref.BuildID)
	key := ref.RecipeDigest + " " + ref.SourcesDigest
	if ref.Compare {
		key += " compared"
	}
	a.mu.Lock()
	rt := a.runtimes[key]
	a.mu.Unlock()
	if rt != nil {
		return rt, nil
	}
	rt, err := a.loadRuntime(ctx, ref)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.runtimes == nil || len(a.runtimes) >= keptRuntimes {
		a.runtimes = map[string]*runtime{}
	}
	a.runtimes[key] = rt
	return rt, nil
}

func (a *Activities) loadRuntime(ctx context.Context, ref wire.BuildRef) (*runtime, error) {
	raw, err := readPinned(ctx, a.Bucket, recipeKey(ref.RecipeDigest), ref.RecipeDigest, maxRecipe)
	if err != nil {
		return nil, fmt.Errorf("read the build's recipe: %w", err)
	}
	r, err := recipe.Parse(ref.Dataset+".yaml", raw)
	if err != nil {
		return nil, invalidRecipe("%v", err)
	}
	if ref.Compare {
		r = CompareRecipe(r)
	}
	text, err := readPinned(ctx, a.Bucket, sourcesKey(ref.SourcesDigest), ref.SourcesDigest, maxSources)
	if err != nil {
		return nil, fmt.Errorf("read the build's list of sources: %w", err)
	}
	var files Sources
	if err := json.Unmarshal(text, &files); err != nil {
		return nil, fmt.Errorf("read the build's list of sources: %w", err)
	}
	if err := files.readRubrics(ctx, a.Bucket); err != nil {
		return nil, err
	}
	rt, err := newRuntime(r, &files)
	if err == nil {
		rt.keys = func(rt *runtime) { rt.useKeys(a.keyring(), a.MayAsk) }
		rt.keys(rt)
		rt.runner = runnerOf{a}
		rt.checkers = a.Checkers
	}
	return rt, err
}

// planned loads the plan of a build and gives it with its runtime.
func (a *Activities) planned(ctx context.Context, ref wire.BuildRef, key string) (*runtime, *Plan, error) {
	rt, err := a.runtime(ctx, ref)
	if err != nil {
		return nil, nil, err
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	for _, p := range rt.plans {
		if p.key == key {
			return p.rt, p.plan, nil
		}
	}
	text, _, err := objstore.ReadAll(ctx, a.Bucket, key, maxPlan)
	if err != nil {
		return nil, nil, fmt.Errorf("read the build's plan: %w", err)
	}
	var plan Plan
	if err := json.Unmarshal(text, &plan); err != nil {
		return nil, nil, fmt.Errorf("read the build's plan: %w", err)
	}
	if len(rt.plans) == keptPlans {
		rt.plans = slices.Delete(rt.plans, 0, 1)
	}
	loaded := &loadedPlan{key: key, plan: &plan, batches: map[string][]batch{}}
	if loaded.rt, err = rt.with(plan.Anew); err != nil {
		return nil, nil, err
	}
	rt.plans = append(rt.plans, loaded)
	if loaded.rt != rt {
		loaded.rt.plans = []*loadedPlan{loaded}
	}
	return loaded.rt, &plan, nil
}

// batch finds one batch of a teacher.
func (rt *runtime) batch(plan *Plan, teacherID string, index int) (batch, error) {
	list := rt.batches(plan, teacherID)
	if index < 0 || index >= len(list) {
		return batch{}, fmt.Errorf("teacher %s has %d batches in this plan, not %d", teacherID, len(list), index+1)
	}
	return list[index], nil
}

func (rt *runtime) batches(plan *Plan, teacherID string) []batch {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	for _, p := range rt.plans {
		if p.plan != plan {
			continue
		}
		if p.batches[teacherID] == nil {
			p.batches[teacherID] = plan.batches(teacherID)
		}
		return p.batches[teacherID]
	}
	return plan.batches(teacherID) // it has made room for another
}

// turnsOf is the order of what one client is asked.
func (a *Activities) turnsOf(c *teachers.Client, t *teacher) *turns {
	a.mu.Lock()
	defer a.mu.Unlock()
	q := a.turns[c]
	if q == nil {
		if a.turns == nil {
			a.turns = map[*teachers.Client]*turns{}
		}
		q = newTurns(t.spec.Limits.AtOnce())
		a.turns[c] = q
	}
	return q
}

// client is the worker's one client of a teacher. It is shared by all builds
// that ask the same teacher in the same way, so that its limits hold.
func (a *Activities) client(t *teacher) (*teachers.Client, error) {
	// Everything that the client is made from; a change gives another client.
	id, err := json.Marshal([]any{t.spec.ID, t.endpoint, t.spec.BaseURL, t.spec.Model, keyRef(t.spec), t.spec.Headers, t.spec.Limits, t.config.Profile, t.price != nil && t.price.GPUHour > 0})
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.clients[string(id)]; c != nil {
		return c, nil
	}
	if a.clients == nil {
		a.clients = map[string]*teachers.Client{}
	}
	c := teachers.NewClient(t.config, teachers.WithImages(a.image), teachers.WithRoots(a.Roots), teachers.WithLimiter(a.leasing().limiter(t.limitsOf(), t.spec.Model)))
	a.clients[string(id)] = c
	return c, nil
}
