package wire

// A FilterPlan is what the filters of prompts have to do, in phases.
type FilterPlan struct {
	Key    string        `json:"key"` // of what was read, in the store
	Phases []FilterPhase `json:"phases"`
}

// A FilterPhase is some units that any workers may do at the same time, once all
// of the phase before are done.
type FilterPhase struct {
	Name  string `json:"name"`
	Units int    `json:"units"`
}

// FilterInput does one unit of the filters of prompts.
type FilterInput struct {
	BuildRef
	Key   string `json:"key"`
	Phase string `json:"phase"`
	Unit  int    `json:"unit"`
}

// PlanFilteredInput plans the prompts that the filters have been through.
type PlanFilteredInput struct {
	BuildRef
	Key string `json:"key"` // of the FilterPlan
}
