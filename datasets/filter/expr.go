package filter

// Reasons of the expr filter. A reason of the recipe's own follows the first
// one after a colon.
const (
	ReasonExpr = "expr"
	// ReasonCondition is the reason of a candidate on which an expression could
	// not be decided, such as one whose metadata is of another kind.
	ReasonCondition = "condition:expr"
)

// An Expression decides about a candidate. It fails where the candidate's
// fields are of another kind than it needs.
type Expression func(in *Input) (keep bool, err error)

// expression keeps candidates for which an expression holds.
type expression struct {
	keep    Expression
	reason  string
	verdict bool
}

// NewExpr makes the filter that keeps the candidates for which an expression
// holds. Its language is the caller's, so that a recipe's conditions and its
// filters read alike. reason is the recipe's word for what it rejects, "" for
// none, and usesVerdict tells that the expression looks at what the verifiers
// said.
func NewExpr(keep Expression, reason string, usesVerdict bool) Filter {
	f := expression{keep: keep, reason: ReasonExpr, verdict: usesVerdict}
	if reason != "" {
		f.reason += ":" + reason
	}
	return f
}

func (expression) Name() string        { return "expr" }
func (expression) Version() string     { return "1" }
func (f expression) usesVerdict() bool { return f.verdict }

func (f expression) Reject(in *Input) string {
	keep, err := f.keep(in)
	switch {
	case err != nil:
		return ReasonCondition
	case !keep:
		return f.reason
	}
	return ""
}
