package wire

// Names of the activities that measure a build's answers, before any of them is
// judged, where the recipe judges one answer by all.
const (
	ActivityMeasure      = "MeasureShards"
	ActivityMergeMeasure = "MergeMeasures"
)

// MostMeasures is in how many parts the shards of a build are measured at most,
// so that the digests of all parts fit one payload.
const MostMeasures = 64

// MeasureInput measures the answers to the tasks of some shards.
type MeasureInput struct {
	BuildRef
	PlanKey string `json:"plan_key"`
	Part    int    `json:"part"`
	First   int    `json:"first"`
	Shards  int    `json:"shards"`
}

// MeasureOutput names what was measured, which is in the store.
type MeasureOutput struct {
	SHA256  string `json:"sha256"`
	Answers int64  `json:"answers"`
}

// MergeMeasuresInput adds up what was measured: the digests of all parts, in
// their order.
type MergeMeasuresInput struct {
	BuildRef
	Parts []string `json:"parts"`
}

// MergeMeasuresOutput names the measures of the whole build.
type MergeMeasuresOutput struct {
	Key string `json:"key"`
}
