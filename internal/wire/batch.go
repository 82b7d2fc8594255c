package wire

// Names of the activities of batch APIs.
const (
	ActivityBatchPrepare = "PrepareBatches"
	ActivityBatchSubmit  = "SubmitBatch"
	ActivityBatchPoll    = "PollBatches"
	ActivityBatchCollect = "CollectBatch"
	ActivityBatchCancel  = "CancelBatches"
)

// UpdateCancelBatches makes a Build's streams cancel their batches at the
// endpoints, once the build itself is cancelled.
const UpdateCancelBatches = "cancel_batches"

// MostOpenBatches bounds the batches of one teacher that are open at once: a
// stream carries their keys. What does not fit is prepared when these are
// collected.
const MostOpenBatches = 100

// A BatchPlan tells a TeacherStream that its teacher is asked through a batch
// API.
type BatchPlan struct {
	PollMS int64 `json:"poll_ms"` // between two looks, at first
}

// BatchCarry is how a batch stream stands, for its continuation.
type BatchCarry struct {
	Round  int      `json:"round,omitempty"`  // preparations that are over
	Asked  bool     `json:"asked,omitempty"`  // the first of them was counted
	More   bool     `json:"more,omitempty"`   // the last of them left asks for another
	Submit []string `json:"submit,omitempty"` // keys of batches that are to be submitted
	Open   []string `json:"open,omitempty"`   // and of those that were
	Looks  int      `json:"looks,omitempty"`  // in a row at which nothing had ended
	Most   int64    `json:"most,omitempty"`   // see BatchPrepareInput
	Busy   int      `json:"busy,omitempty"`   // rounds that the endpoint refused for now
}

// BatchPrepareInput makes batches of the asks that nobody has answered and no
// open batch holds.
type BatchPrepareInput struct {
	BuildRef
	PlanKey string `json:"plan_key"`
	Teacher string `json:"teacher"`
	// Retry puts those asks in again that this build has asked in vain, unless
	// they would fail the same way.
	Retry bool `json:"retry,omitempty"`
	// Most bounds what one batch can cost, in micro-dollars, where a budget has
	// no room for a larger one; 0: nothing bounds it.
	Most int64 `json:"most,omitempty"`
	// Close makes none: it only counts what is answered.
	Close bool `json:"close,omitempty"`
}

// BatchPrepareOutput says what is to be submitted and awaited.
type BatchPrepareOutput struct {
	Asks     int64          `json:"asks"`
	Answered int64          `json:"answered"`
	Missing  int64          `json:"missing"`          // neither answered nor in a batch
	Submit   []string       `json:"submit,omitempty"` // keys of batches
	Open     []string       `json:"open,omitempty"`   // submitted already, by this build or another
	More     bool           `json:"more,omitempty"`   // there are more than MostOpenBatches
	Stopped  *TeacherFailed `json:"stopped,omitempty"`
}

// BatchInput names one batch of a teacher.
type BatchInput struct {
	BuildRef
	Teacher string `json:"teacher"`
	Batch   string `json:"batch"`
}

// BatchSubmitOutput says whether a batch is submitted.
type BatchSubmitOutput struct {
	Submitted bool `json:"submitted,omitempty"`
	// WaitMS is how long to wait before trying again: the endpoint is busy, or
	// it is not known yet what became of the last try.
	WaitMS int64  `json:"wait_ms,omitempty"`
	Why    string `json:"why,omitempty"` // of the wait
	// Gone: the batch was given up, and its asks go into others: of at most Most
	// micro-dollars, where a budget had no room for it.
	Gone    bool           `json:"gone,omitempty"`
	Most    int64          `json:"most,omitempty"`
	Stopped *TeacherFailed `json:"stopped,omitempty"`
}

// BatchPollInput looks at open batches.
type BatchPollInput struct {
	BuildRef
	Teacher string   `json:"teacher"`
	Batches []string `json:"batches"`
}

// BatchPollOutput lists those that have ended.
type BatchPollOutput struct {
	Ended   []string       `json:"ended,omitempty"`
	Rows    int64          `json:"rows"`            // of those that run
	Done    int64          `json:"done"`            // of these
	Words   string         `json:"words,omitempty"` // the endpoint's, of the first that runs
	Stopped *TeacherFailed `json:"stopped,omitempty"`
}

// BatchCollectOutput is what a batch brought.
type BatchCollectOutput struct {
	Counts AskCounts `json:"counts"` // of what it brought: New and what it cost, Failed
	// Foreign: it was somebody else's batch that looked like ours; ours is to be
	// submitted.
	Foreign bool   `json:"foreign,omitempty"`
	Ended   string `json:"ended,omitempty"`
	Refused int64  `json:"refused,omitempty"` // rows that did not belong
	// WaitMS is how long to wait before the asks go into another batch: the
	// endpoint refused this one for now.
	WaitMS  int64          `json:"wait_ms,omitempty"`
	Why     string         `json:"why,omitempty"`
	Stopped *TeacherFailed `json:"stopped,omitempty"`
}
