// Package workflows holds the durable part of a build: what is done in which
// order, how much at once, and what is left after a crash. Everything with a
// side effect is an activity; workflows hold ids, keys and counts.
//
// A [Build] plans, starts one [TeacherStream] for each teacher, refines each
// shard of tasks once every teacher is through with it, and seals a version.
// Streams are children that outlive a continue-as-new of their parent: they
// report by signal and are stopped explicitly.
package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/stillhouse-data/stillhouse/internal/wire"
)

// Registry is the part of a worker that workflows are registered with.
type Registry interface {
	RegisterWorkflowWithOptions(w any, options workflow.RegisterOptions)
}

// Register registers every workflow under its wire name.
func Register(r Registry) {
	r.RegisterWorkflowWithOptions(Build, workflow.RegisterOptions{Name: wire.WorkflowBuild})
	r.RegisterWorkflowWithOptions(TeacherStream, workflow.RegisterOptions{Name: wire.WorkflowTeacherStream})
	r.RegisterWorkflowWithOptions(ScheduledBuild, workflow.RegisterOptions{Name: wire.WorkflowScheduled})
	r.RegisterWorkflowWithOptions(Budget, workflow.RegisterOptions{Name: wire.WorkflowBudget})
	r.RegisterWorkflowWithOptions(EndpointLimits, workflow.RegisterOptions{Name: wire.WorkflowLimits})
	r.RegisterWorkflowWithOptions(HandOff, workflow.RegisterOptions{Name: wire.WorkflowHandOff})
}
