package wire

import "github.com/stillhouse-data/stillhouse/internal/budget"

// The authority over what the builds of one dataset may spend: the workflow
// that workers borrow from. It runs as long as its dataset is built now and
// then, because what was spent in a month outlives every build.
const (
	WorkflowBudget    = "Budget"
	UpdateBudgetOpen  = "open"   // of a Budget: budget.Open
	UpdateBudgetLease = "lease"  // of a Budget: budget.Request to budget.Reply
	SignalBudgetClose = "close"  // a Build to its Budget: budget.Close
	QueryBudget       = "budget" // of a Budget: budget.Status
)

// UpdateBudget changes the budget of a Build that runs: BudgetRequest.
const UpdateBudget = "budget"

// StoppedBudget is the class of a TeacherFailed whose next ask its budget has no
// room for.
const StoppedBudget = "budget"

// ActivityBudget tells the authority of a changed budget.
const ActivityBudget = "OpenBudget"

// BudgetWorkflowID is the id of the authority over a dataset's budget.
func BudgetWorkflowID(dataset string) string { return "budget/" + dataset }

// BudgetInput starts a Budget. The book is that of the run before.
type BudgetInput struct {
	Dataset string      `json:"dataset"`
	Book    budget.Book `json:"book"`
}

// BudgetRequest changes the limit of a build that runs.
type BudgetRequest struct {
	Micros int64 `json:"micros"` // micro-dollars
}
