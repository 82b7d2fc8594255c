package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// The authority over the limits of one model at one endpoint: the workflow that
// workers lease slices from.
const (
	WorkflowLimits = "EndpointLimits"
	UpdateLease    = "lease"  // of an EndpointLimits: LeaseRequest to LeaseGrant
	QueryLeases    = "leases" // of an EndpointLimits: LimitsState
)

const (
	// LeaseTime is how long a lease holds. A worker counts it from before it
	// sent its request, the authority from when it took that, and LeaseGrace
	// more: so whatever their clocks say, the worker's is over first.
	LeaseTime  = 30 * time.Second
	LeaseGrace = 2 * time.Second
	// LeaseRenew is how often a lease is renewed by a worker that is alone,
	// LeaseRenewShared by those that share an endpoint, so that what one does not
	// use is soon another's, and LeaseRenewSoon while workers come and go.
	LeaseRenew       = 10 * time.Second
	LeaseRenewShared = 4 * time.Second
	LeaseRenewSoon   = time.Second
	// MaxLessees is the most workers that share an endpoint: what an authority
	// hands to its continuation is one small payload.
	MaxLessees = 50
	// MaxLesseeName bounds a worker's name, for the same reason.
	MaxLesseeName = 32
	// NoLimit stands in a LeaseGrant for a limit that nobody declares.
	NoLimit = -1
)

// LimitsWorkflowID is the id of the authority over a model at an endpoint.
func LimitsWorkflowID(endpointIdentity, model string) string {
	sum := sha256.Sum256([]byte(model))
	return "limits/" + endpointIdentity + "/" + hex.EncodeToString(sum[:8])
}

// LimitsInput starts an EndpointLimits. The rest is set when it continues as
// new.
type LimitsInput struct {
	Model   string   `json:"model"` // for whoever reads the history
	Seq     int64    `json:"seq,omitempty"`
	Lessees []Lessee `json:"lessees,omitempty"`
	Past    []Past   `json:"past,omitempty"`
	Learned Declared `json:"learned,omitzero"` // by all workers together
	// Careful is to when workers may hold what an authority before this one gave
	// them; milliseconds since 1970.
	Careful int64 `json:"careful,omitempty"`
}

// Declared are the limits of a recipe; 0 of anything is none.
type Declared struct {
	Concurrency int     `json:"c,omitempty"`
	RPM         float64 `json:"r,omitempty"`
	TPM         float64 `json:"t,omitempty"`
}

// A LeaseRequest asks for a slice, renews one or gives it back.
type LeaseRequest struct {
	Worker string `json:"w"` // its home's name, the same after a restart
	// Process and Number order a worker's requests: those of an earlier process,
	// and those that were overtaken, count for nothing.
	Process int64 `json:"p"` // milliseconds since 1970
	Number  int64 `json:"n"`
	// Holds is the grant that it works with, so that an authority that knows
	// nothing of it learns it; nil: none.
	Holds    *Held    `json:"k,omitempty"`
	InFlight int      `json:"f,omitempty"`
	Hungry   bool     `json:"h,omitempty"` // asks wait
	RPM      float64  `json:"r,omitempty"` // used in the last seconds, as of a minute
	TPM      float64  `json:"t,omitempty"`
	Declared Declared `json:"l"`
	// Learned is what refusals have taught it of its own part; 0 is nothing. Base
	// is what of it the authority knows: what it said last, or was told since.
	Learned Declared `json:"y,omitzero"`
	Base    Declared `json:"b,omitzero"`
	Minute  Declared `json:"u,omitzero"`  // used in the last minute
	Release bool     `json:"x,omitempty"` // it needs none any more
}

// A LeaseGrant is the slice that a worker may use for LeaseTime.
type LeaseGrant struct {
	Seq         int64         `json:"s"`
	Concurrency int           `json:"c"` // NoLimit: not declared
	RPM         float64       `json:"r"`
	TPM         float64       `json:"t"`
	Renew       time.Duration `json:"n"` // when to ask again
	// Learned is the worker's part of what all have learned together, where that
	// is another than it said; 0 of anything leaves it.
	Learned Declared `json:"y,omitzero"`
	Stale   bool     `json:"x,omitempty"`
}

// A Lessee is a worker as its authority knows it.
type Lessee struct {
	LeaseRequest
	Have  *Held `json:"a,omitempty"` // what it said that it works with
	Offer *Held `json:"o,omitempty"` // what it was given and may not know of
	// Paced is to when it counts among those that use the rate; milliseconds
	// since 1970.
	Paced int64 `json:"e,omitempty"`
	// Counted is what of its use is in what all have learned, though it was never
	// refused itself.
	Counted Declared `json:"m,omitzero"`
}

// Held is a slice that a worker may be using.
type Held struct {
	Seq         int64   `json:"s"`
	Concurrency int     `json:"c"`
	RPM         float64 `json:"r"`
	TPM         float64 `json:"t"`
	Until       int64   `json:"u"` // milliseconds since 1970, by the authority's clock
}

// Past is a worker that has used a rate within the last minute and holds none
// any more.
type Past struct {
	Worker string `json:"w"`
	Until  int64  `json:"u"` // to which it counts; milliseconds since 1970
}

// LimitsState answers QueryLeases.
type LimitsState struct {
	Model    string   `json:"model"`
	Declared Declared `json:"declared"` // the lowest of what the workers' builds declare
	Learned  Declared `json:"learned"`  // what refusals have taught all of them together
	Lessees  []Lessee `json:"lessees"`
}
