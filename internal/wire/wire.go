// Package wire holds the names and the inputs and outputs of workflows and
// activities. They are a wire format: recorded histories replay against them,
// so names never change and fields are only added.
//
// Payloads hold ids, keys, digests and counts, never prompts or answers, and
// stay under [MaxPayload] bytes whatever the size of the dataset.
package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/budget"
)

// MaxPayload bounds one payload in a workflow's history, in bytes.
const MaxPayload = 16 << 10

// MaxTeachers is the most teachers of a recipe: what a build hands to its
// continuation holds a report of each and stays one small payload.
const MaxTeachers = 40

// QueuePipeline is the task queue of everything but asking.
const QueuePipeline = "pipeline"

// QueueSandbox is the task queue of refining where answers are run: its workers
// have a sandbox, and need neither keys nor a way to the teachers.
const QueueSandbox = "sandbox"

// Names of workflows.
const (
	WorkflowBuild         = "Build"
	WorkflowTeacherStream = "TeacherStream"
	WorkflowScheduled     = "ScheduledBuild"
	WorkflowHandOff       = "HandOff"
)

// Names of activities.
const (
	ActivityPlan     = "Plan"
	ActivityImport   = "ImportRecorded"
	ActivityAskShard = "AskShard"
	ActivityRefine   = "RefineShard"
	ActivitySeal     = "Seal"
	ActivityAbandon  = "AbandonBuild"
	ActivityNotify   = "Notify"
	ActivityRepin    = "RepinSources"
	ActivityPrepare  = "PrepareHandOff"
	ActivityCheck    = "CheckTraining"
	ActivityRecipeHO = "RecipeHandOff"
	ActivityLaunch   = "LaunchTraining"
	ActivityFollow   = "FollowTraining"

	ActivityFilterPrompts = "FilterPrompts"
	ActivityPlanFiltered  = "PlanFiltered"
)

// Names of signals, updates and queries.
const (
	SignalStream      = "stream"      // a TeacherStream to its Build: StreamReport
	SignalControl     = "control"     // a Build to its streams: Control
	UpdatePause       = "pause"       // of a Build: PauseRequest
	UpdateResume      = "resume"      // of a Build
	UpdateConcurrency = "concurrency" // of a Build: ConcurrencyRequest
	QueryProgress     = "progress"    // of a Build: Progress
)

// Names of search attributes.
const (
	AttributeDataset = "Dataset"
	AttributeTeacher = "Teacher"
	AttributePhase   = "Phase"
)

// MemoQueue is the memo field of a TeacherStream that holds its task queue, so
// that workers find the queues that they have to serve.
const MemoQueue = "queue"

// Phases of a build, in order.
const (
	PhasePlan    = "plan"
	PhaseAsk     = "ask"
	PhaseSeal    = "seal"
	PhaseDone    = "done"
	PhaseStopped = "stopped"
)

// Types of application errors that no retry can mend.
const (
	ErrInvalidRecipe = "InvalidRecipe" // exit code 2
	ErrBadSource     = "BadSource"     // exit code 2
	ErrGate          = "GateFailed"    // exit code 3
	ErrPayload       = "PayloadTooLarge"
	ErrConflict      = "Conflict"
)

// BuildWorkflowID is the id of the build of a dataset from exactly this recipe
// and these sources, so that the same command finds its own run.
func BuildWorkflowID(dataset, recipeDigest, sourcesDigest string) string {
	sum := sha256.Sum256([]byte(recipeDigest + " " + sourcesDigest))
	return "build/" + dataset + "/" + hex.EncodeToString(sum[:8])
}

// PreviewWorkflowID is the id of one preview.
func PreviewWorkflowID(dataset, buildID string) string { return "preview/" + dataset + "/" + buildID }

// StreamWorkflowID is the id of one teacher's stream in a build.
func StreamWorkflowID(dataset, buildID, teacher string) string {
	return "stream/" + dataset + "/" + buildID + "/" + teacher
}

// TeacherQueue is the task queue that asks one teacher at one endpoint.
func TeacherQueue(teacher, endpointIdentity string) string {
	return "teacher." + teacher + "." + endpointIdentity[:8]
}

// QueueTeacher is the teacher of a queue's name.
func QueueTeacher(queue string) string {
	id := strings.TrimPrefix(queue, "teacher.")
	if i := strings.LastIndexByte(id, '.'); i >= 0 {
		id = id[:i]
	}
	return id
}

// A BuildRef names a build and what it is made from.
type BuildRef struct {
	Dataset       string `json:"dataset"`
	BuildID       string `json:"build_id"`
	RecipeDigest  string `json:"recipe_digest"`
	SourcesDigest string `json:"sources_digest"`
	// Preview is how many tasks go through all stages without being published;
	// 0 is a build.
	Preview int `json:"preview,omitempty"`
	// Compare tells that every teacher is asked every task of a preview, whatever
	// the recipe's route says.
	Compare bool `json:"compare,omitempty"`
	// BudgetMicros is what the build may spend, in micro-dollars, instead of what
	// its recipe says; 0: as the recipe says.
	BudgetMicros int64 `json:"budget_micros,omitempty"`
	// Scheduled tells that a schedule started the build.
	Scheduled bool `json:"scheduled,omitempty"`
	// Refresh are the teachers that the build asks anew, with slashes between.
	Refresh string `json:"refresh,omitempty"`
	// Notify is how many of the recipe's notify entries are told how it ended.
	Notify int `json:"notify,omitempty"`
	// HandOff tells that the recipe hands what is published to a trainer.
	HandOff bool `json:"handoff,omitempty"`
}

// BuildInput starts a Build. Carry is set when a build continues as new.
type BuildInput struct {
	BuildRef
	Carry *BuildCarry `json:"carry,omitempty"`
}

// BuildCarry is what a Build hands to its continuation.
type BuildCarry struct {
	Plan    PlanOutput     `json:"plan"`
	Streams []StreamReport `json:"streams"`
	Refined RefineCounts   `json:"refined"`
	Next    int            `json:"next"` // every shard below is refined; none above is begun
	Paused  bool           `json:"paused,omitempty"`
	Started time.Time      `json:"started"`
	Stats   string         `json:"stats,omitempty"` // key of the measures of all answers
	Judges  []JudgeReport  `json:"judges,omitempty"`
}

// TeacherPlan is one teacher's part of a plan.
type TeacherPlan struct {
	ID       string `json:"id"`
	Asks     int64  `json:"asks"`
	Queue    string `json:"queue,omitempty"`
	Batches  int    `json:"batches,omitempty"`
	Window   int    `json:"window,omitempty"` // batches in flight at once
	Recorded bool   `json:"recorded,omitempty"`
	// Batch is set for a teacher that is asked through a batch API.
	Batch *BatchPlan `json:"batch,omitempty"`
}

// PlanOutput sums up a plan; the plan itself is in the store at Key.
type PlanOutput struct {
	Key        string        `json:"key"`
	Tasks      int64         `json:"tasks"`
	Prompts    int64         `json:"prompts"`
	Duplicates int64         `json:"duplicates"`
	BadRows    int64         `json:"bad_rows"`
	Shards     int           `json:"shards"`
	Teachers   []TeacherPlan `json:"teachers"`
	// Budget tells that the build spends from a budget.
	Budget bool `json:"budget,omitempty"`
	// Judges are asked about answers before those are refined.
	Judges []JudgePlan `json:"judges,omitempty"`
	// Filter says what is to be done before the prompts can be planned; everything
	// else but Prompts is empty then.
	Filter *FilterPlan `json:"filter,omitempty"`
	// Measure tells that all answers are measured before any is judged.
	Measure bool `json:"measure,omitempty"`
	// Sandbox tells that shards are refined by workers of QueueSandbox.
	Sandbox bool `json:"sandbox,omitempty"`
	// Dropped counts the tasks that the filters of prompts left out.
	Dropped int64 `json:"dropped,omitempty"`
	// Fit has the student score accepted answers before the seal.
	Fit *FitPlan `json:"fit,omitempty"`
	// Fallbacks are the teachers that tasks may go on to where others failed.
	Fallbacks []FallbackPlan `json:"fallbacks,omitempty"`
}

// ImportInput brings the answers of a recorded teacher into the answer store.
type ImportInput struct {
	BuildRef
	Teacher string `json:"teacher"`
}

// ImportOutput counts what was imported.
type ImportOutput struct {
	Rows    int64 `json:"rows"`
	Added   int64 `json:"added"`
	BadRows int64 `json:"bad_rows"`
}

// StreamInput starts a TeacherStream.
type StreamInput struct {
	BuildRef
	Parent      string         `json:"parent"` // workflow id of the Build
	PlanKey     string         `json:"plan_key"`
	Shards      int            `json:"shards"`
	Teacher     TeacherPlan    `json:"teacher"`
	Next        int            `json:"next,omitempty"` // first batch not asked yet
	Report      StreamReport   `json:"report"`
	Paused      bool           `json:"paused,omitempty"`
	Concurrency int            `json:"concurrency,omitempty"`
	Imported    *ImportOutput  `json:"imported,omitempty"`
	Stopped     *TeacherFailed `json:"stopped,omitempty"`
	// Carry is how a batch stream stands.
	Carry *BatchCarry `json:"carry,omitempty"`
	// CancelBatches: whoever cancels the stream wants its batches cancelled too.
	CancelBatches bool `json:"cancel_batches,omitempty"`
}

// AskCounts counts asks and what they cost. Its keys are short because a build
// hands the counts of all of its teachers to its continuation.
type AskCounts struct {
	Asks             int64 `json:"a,omitempty"`
	New              int64 `json:"n,omitempty"` // answers that arrived now
	Reused           int64 `json:"r,omitempty"` // answers that were there
	Failed           int64 `json:"f,omitempty"`
	PromptTokens     int64 `json:"p,omitempty"`
	CachedTokens     int64 `json:"k,omitempty"`
	CompletionTokens int64 `json:"c,omitempty"`
	CostMicros       int64 `json:"m,omitempty"`
	Unpriced         int64 `json:"u,omitempty"` // new answers without a price
}

// Add adds o to c.
func (c *AskCounts) Add(o AskCounts) {
	c.Asks += o.Asks
	c.New += o.New
	c.Reused += o.Reused
	c.Failed += o.Failed
	c.PromptTokens += o.PromptTokens
	c.CachedTokens += o.CachedTokens
	c.CompletionTokens += o.CompletionTokens
	c.CostMicros += o.CostMicros
	c.Unpriced += o.Unpriced
}

// Sub takes o from c.
func (c *AskCounts) Sub(o AskCounts) {
	c.Add(AskCounts{
		Asks: -o.Asks, New: -o.New, Reused: -o.Reused, Failed: -o.Failed,
		PromptTokens: -o.PromptTokens, CachedTokens: -o.CachedTokens, CompletionTokens: -o.CompletionTokens,
		CostMicros: -o.CostMicros, Unpriced: -o.Unpriced,
	})
}

// TeacherFailed says why a teacher can't be used in this build any more.
type TeacherFailed struct {
	Class string `json:"class"` // auth, quota, not_found, unreachable
	Text  string `json:"text,omitempty"`
}

// StreamReport is what a TeacherStream tells its Build.
type StreamReport struct {
	Teacher string         `json:"teacher"`
	Through int            `json:"through"` // shards with a lower index need nothing more from this teacher
	Counts  AskCounts      `json:"counts"`
	Done    bool           `json:"done,omitempty"`
	Stopped *TeacherFailed `json:"stopped,omitempty"`
	Failure string         `json:"failure,omitempty"` // the stream itself failed
	// FailureType is the application error's, "" for any other.
	FailureType string `json:"failure_type,omitempty"`
	// Waiting says what a batch stream waits for.
	Waiting string `json:"waiting,omitempty"`
}

// Control tells a stream to pause, go on, or change its window.
type Control struct {
	Paused      bool `json:"paused"`
	Concurrency int  `json:"concurrency,omitempty"` // batches in flight; 0: as planned
	// CancelBatches makes a batch stream that is cancelled cancel its batches at
	// the endpoint too.
	CancelBatches bool `json:"cancel_batches,omitempty"`
	// BudgetMicros is the limit of batches that begin from now on; 0: as it was.
	BudgetMicros int64 `json:"budget_micros,omitempty"`
}

// PauseRequest pauses a build.
type PauseRequest struct {
	Reason string `json:"reason,omitempty"`
}

// ConcurrencyRequest changes the batches in flight of one teacher.
type ConcurrencyRequest struct {
	Teacher string `json:"teacher"`
	Batches int    `json:"batches"`
}

// AskInput asks one batch of a teacher's asks.
type AskInput struct {
	BuildRef
	PlanKey string `json:"plan_key"`
	Teacher string `json:"teacher"`
	Batch   int    `json:"batch"`
}

// AskOutput is what came of a batch.
type AskOutput struct {
	Counts  AskCounts      `json:"counts"`
	Through int            `json:"through"` // see StreamReport; holds once every lower batch is done too
	Stopped *TeacherFailed `json:"stopped,omitempty"`
}

// AskHeartbeat is the detail that an AskShard's heartbeats carry.
type AskHeartbeat struct {
	Counts  AskCounts `json:"counts"`
	Total   int       `json:"total"`
	Waiting string    `json:"waiting,omitempty"`
}

// RefineInput checks, filters and merges one shard of tasks.
type RefineInput struct {
	BuildRef
	PlanKey string    `json:"plan_key"`
	Shard   int       `json:"shard"`
	Started time.Time `json:"started"` // of the build: answers since then are its own
	// StatsKey names the measures of all answers, where a filter needs them.
	StatsKey string `json:"stats_key,omitempty"`
	// Fallbacks is how many rounds of fallbacks were asked.
	Fallbacks int `json:"fallbacks,omitempty"`
}

// RefineCounts counts what became of tasks and candidates.
type RefineCounts struct {
	Tasks      int64 `json:"tasks"`
	Candidates int64 `json:"candidates"`
	Accepted   int64 `json:"accepted"`
	Selected   int64 `json:"selected"`
	// Next are the teachers that tasks of the shard go on to, so that it is
	// refined again once they are asked; nothing is counted then.
	Next []string `json:"next,omitempty"`
	// Teachers counts candidates and accepted ones by teacher, in the order in
	// which they were first counted: a list, because workflow code may not walk
	// over a map.
	Teachers []Share `json:"teachers,omitempty"`
}

// A Share is how many of a teacher's candidates are accepted.
type Share struct {
	Teacher  string `json:"id"`
	Of       int64  `json:"of"`
	Accepted int64  `json:"ok"`
}

// Share is the share of one teacher.
func (c *RefineCounts) Share(teacher string) Share {
	for _, s := range c.Teachers {
		if s.Teacher == teacher {
			return s
		}
	}
	return Share{Teacher: teacher}
}

// Count adds one candidate of a teacher.
func (c *RefineCounts) Count(teacher string, accepted bool) {
	s := Share{Teacher: teacher, Of: 1}
	if accepted {
		s.Accepted = 1
	}
	c.add(s)
}

func (c *RefineCounts) add(s Share) {
	for i := range c.Teachers {
		if c.Teachers[i].Teacher == s.Teacher {
			c.Teachers[i].Of += s.Of
			c.Teachers[i].Accepted += s.Accepted
			return
		}
	}
	c.Teachers = append(c.Teachers, s)
}

// Add adds o to c.
func (c *RefineCounts) Add(o RefineCounts) {
	c.Tasks += o.Tasks
	c.Candidates += o.Candidates
	c.Accepted += o.Accepted
	c.Selected += o.Selected
	for _, s := range o.Teachers {
		c.add(s)
	}
}

// SealInput writes the tables and commits the version.
type SealInput struct {
	BuildRef
	PlanKey string          `json:"plan_key"`
	Streams []StreamSummary `json:"streams"`
	Started time.Time       `json:"started"`
}

// StreamSummary is the part of a StreamReport that the seal records.
type StreamSummary struct {
	Teacher string         `json:"teacher"`
	New     int64          `json:"new"`
	Reused  int64          `json:"reused"`
	Spent   int64          `json:"spent_micros"`
	Unp     int64          `json:"unpriced"`
	Stopped *TeacherFailed `json:"stopped,omitempty"`
}

// BuildOutput is the end of a build. Its full result is the build's record in
// the store.
type BuildOutput struct {
	Dataset   string   `json:"dataset"`
	BuildID   string   `json:"build_id"`
	Version   int64    `json:"version"` // 0: nothing was published
	Unchanged bool     `json:"unchanged"`
	Gates     []string `json:"gates,omitempty"`   // gates that failed, so that nothing was published
	Stopped   []string `json:"stopped,omitempty"` // teachers that could not be used
	Preview   string   `json:"preview,omitempty"` // key of a preview's tasks
	// OverBudget are those of Stopped that stopped at their budget.
	OverBudget []string `json:"over_budget,omitempty"`
	// HandOff is the workflow that hands the version to the recipe's trainer, or
	// HandOffError why there is none.
	HandOff      string `json:"handoff,omitempty"`
	HandOffError string `json:"handoff_error,omitempty"`
}

// Events of a build's end, as recipes name them in notify.
const (
	EventSuccess = "success" // it ended well, whether or not it published something
	EventGate    = "gate"    // it published nothing, because a gate failed
	EventBudget  = "budget"  // it stopped at its budget
	EventTeacher = "teacher" // a teacher was unusable; the rest is done
	EventFailure = "failure" // it failed
)

// NotifyInput tells one of a recipe's notify entries how a build ended.
type NotifyInput struct {
	BuildRef
	Index     int      `json:"index"` // of the entry
	Event     string   `json:"event"`
	Version   int64    `json:"version,omitempty"`
	Unchanged bool     `json:"unchanged,omitempty"`
	Gates     int      `json:"gates,omitempty"`   // that failed
	Stopped   []string `json:"stopped,omitempty"` // teachers, at most 50
	Failure   string   `json:"failure,omitempty"` // type of the error
}

// Progress answers QueryProgress.
type Progress struct {
	BuildRef
	Phase      string          `json:"phase"`
	Paused     bool            `json:"paused"`
	Why        string          `json:"why,omitempty"` // of the pause
	Started    time.Time       `json:"started"`
	Tasks      int64           `json:"tasks"`
	Prompts    int64           `json:"prompts"`
	Duplicates int64           `json:"duplicates"`
	Dropped    int64           `json:"dropped,omitempty"`   // tasks that the filters of prompts left out
	Filtering  string          `json:"filtering,omitempty"` // how far they are, in words
	Shards     int             `json:"shards"`
	ShardsDone int             `json:"shards_done"`
	Refined    RefineCounts    `json:"refined"`
	Teachers   []TeacherStatus `json:"teachers"`
	Limited    bool            `json:"limited,omitempty"` // the build spends from a budget
	Sandbox    bool            `json:"sandbox,omitempty"` // shards are refined by workers of QueueSandbox
	// Budget is how the budget stands; filled in by whoever watches.
	Budget *budget.Status `json:"budget,omitempty"`
}

// TeacherStatus is one teacher in a Progress.
type TeacherStatus struct {
	ID      string         `json:"id"`
	Stream  string         `json:"stream"` // workflow id
	Total   int64          `json:"total"`  // asks
	Counts  AskCounts      `json:"counts"`
	Done    bool           `json:"done"`
	Stopped *TeacherFailed `json:"stopped,omitempty"`
	Waiting string         `json:"waiting,omitempty"` // why its asks wait; filled in by whoever watches
}

// ScheduledInput starts a ScheduledBuild: the recipe and its local files are
// pinned by digest.
type ScheduledInput struct {
	Dataset       string `json:"dataset"`
	RecipeDigest  string `json:"recipe_digest"`
	SourcesDigest string `json:"sources_digest"`
	// Relist tells that files in other stores are listed anew before each run.
	Relist  bool `json:"relist,omitempty"`
	Notify  int  `json:"notify,omitempty"`  // see BuildRef
	HandOff bool `json:"handoff,omitempty"` // see BuildRef
}

// RepinInput lists a recipe's files in other stores anew.
type RepinInput struct {
	Dataset       string `json:"dataset"`
	RecipeDigest  string `json:"recipe_digest"`
	SourcesDigest string `json:"sources_digest"`
}

// BuildID is a UTC stamp and the first 8 hex digits of unique, such as
// 20261130T164501Z-1f2e3d4c.
func BuildID(now time.Time, unique string) string {
	sum := sha256.Sum256([]byte(unique))
	return now.UTC().Format("20060102T150405Z") + "-" + hex.EncodeToString(sum[:4])
}
