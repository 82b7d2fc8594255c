package datasets

import "strings"

// Filtered counts what the filters of prompts did with the tasks of a plan.
type Filtered struct {
	// Tasks that were left out, so that no teacher is asked.
	Duplicates     int64 `json:"duplicates" jsonschema:"description=tasks left out because an earlier prompt says the same"`
	NearDuplicates int64 `json:"near_duplicates" jsonschema:"description=tasks left out because an earlier prompt says nearly the same"`
	Contaminated   int64 `json:"contaminated" jsonschema:"description=tasks left out because their prompt holds an item of an evaluation set"`
	// Flags counts those that were found and are asked nevertheless, by flag.
	Flags map[string]int64 `json:"flags,omitempty" jsonschema:"description=tasks that were found and are asked nevertheless; by flag"`
	// Sets counts, by evaluation set, the tasks whose prompts hold an item of it.
	Sets map[string]int64 `json:"sets,omitempty" jsonschema:"description=tasks by evaluation set of which they hold an item"`
	// Warnings are alarms about what was found.
	Warnings []string `json:"warnings,omitempty" jsonschema:"description=what looks as if the filters found too much"`
}

// Dropped is how many tasks were left out.
func (f *Filtered) Dropped() int64 {
	if f == nil {
		return 0
	}
	return f.Duplicates + f.NearDuplicates + f.Contaminated
}

// Note adds a task.
func (f *Filtered) Note(task *Task) {
	found := task.Findings
	if f == nil || found == nil {
		return
	}
	switch {
	case found.Status == StatusDirty:
		f.Contaminated++
	case found.Status == StatusDuplicate && found.Exact:
		f.Duplicates++
	case found.Status == StatusDuplicate:
		f.NearDuplicates++
	}
	for _, flag := range found.Flags {
		if f.Flags == nil {
			f.Flags = map[string]int64{}
		}
		f.Flags[flag]++
	}
	seen := map[string]bool{}
	for i := range found.Contaminants {
		set := f.set(found.Contaminants[i].Set)
		if seen[set] {
			continue
		}
		seen[set] = true
		if f.Sets == nil {
			f.Sets = map[string]int64{}
		}
		f.Sets[set]++
	}
}

// set is what an evaluation set is counted as.
func (f *Filtered) set(name string) string {
	if len(name) > setBytes {
		name = "…" + strings.ToValidUTF8(name[len(name)-setBytes:], "")
	}
	if f.Sets[name] == 0 && len(f.Sets) >= mostSets {
		return OtherSets
	}
	return name
}

const (
	// mostSets bounds the evaluation sets that are counted one by one, and
	// setBytes their names: the counts go into small records.
	mostSets = 30
	setBytes = 160
	// OtherSets counts those beyond.
	OtherSets = "(other)"
)
