package recipe

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/goccy/go-yaml/ast"
)

// Names of the filters of prompts.
const (
	Duplicate     = "duplicate"
	NearDuplicate = "near_duplicate"
	Contamination = "contamination"
)

// promptFilterNames are the filters of prompts of the contract.
var promptFilterNames = []string{Duplicate, NearDuplicate, Contamination}

// What a filter of prompts does with what it finds.
const (
	ActionDrop = "drop" // no teacher is asked; the task stays in table prompts
	ActionFlag = "flag" // it is marked there, and asked
)

// A PromptStep is one filter of prompts: a bare name, or a map of one name to
// its options. Of the three options the one that Name says is set.
type PromptStep struct {
	Name          string
	When          *When // which tasks it applies to; nil for all
	Duplicate     *DuplicateStep
	NearDuplicate *NearDuplicateStep
	Contamination *ContaminationStep
}

// Action is what the step does with what it finds.
func (s *PromptStep) Action() string {
	switch s.Name {
	case Duplicate:
		return s.Duplicate.Action
	case NearDuplicate:
		return s.NearDuplicate.Action
	}
	return s.Contamination.Action
}

// A DuplicateStep finds prompts that say the same as an earlier one.
type DuplicateStep struct {
	// What happens to them: drop asks no teacher, flag only marks them.
	Action string `yaml:"action" json:"action,omitempty" enum:"drop,flag" default:"drop"`
	// Which tasks it applies to; the same as when beside the name.
	When *When `yaml:"when" json:"-"`
}

// A NearDuplicateStep finds prompts that say nearly the same as an earlier one.
type NearDuplicateStep struct {
	// Least Jaccard similarity of the shingles of two prompts; 0.8 where absent.
	Jaccard *float64 `yaml:"jaccard" json:"jaccard,omitempty" min:"0.3" max:"1"`
	// Bands of the signature; 20 where absent. More bands find more and cost more.
	Bands int `yaml:"bands" json:"bands,omitempty" min:"1" max:"256"`
	// Hashes a band; 6 where absent. More rows compare fewer pairs and find fewer.
	Rows int `yaml:"rows" json:"rows,omitempty" min:"1" max:"64"`
	// Words of a shingle; 5 where absent.
	Shingle int `yaml:"shingle" json:"shingle,omitempty" min:"1" max:"32"`
	// Whether prompts that differ in their values alone (a number, an identifier, an argument, a quotation, a name) are near-duplicates too.
	AnyValues bool `yaml:"any_values" json:"any_values,omitempty"`
	// Prompts of one cluster above which the plan warns; 1000 where absent.
	MaxCluster int `yaml:"max_cluster" json:"max_cluster,omitempty" min:"1"`
	// Share of a source's prompts that may be found before the plan warns; 0.5 where absent.
	MaxSourceLoss *float64 `yaml:"max_source_loss" json:"max_source_loss,omitempty" min:"0" max:"1"`
	// What happens to them: drop asks no teacher, flag only marks them.
	Action string `yaml:"action" json:"action,omitempty" enum:"drop,flag" default:"drop"`
	// Which tasks it applies to; the same as when beside the name.
	When *When `yaml:"when" json:"-"`
}

// A ContaminationStep finds prompts that hold items of evaluation sets.
type ContaminationStep struct {
	// Files of the evaluation sets: paths, globs, folders or s3:// URLs, in the formats of prompt files.
	Against []string `yaml:"against" json:"against,omitempty" required:"true"`
	// Words in a row that make a match.
	Ngram int `yaml:"ngram" json:"ngram,omitempty" min:"2" max:"64" default:"8"`
	// Share of an item's words that one prompt must exceed; 0.5 where absent.
	Share *float64 `yaml:"share" json:"share,omitempty" min:"0" max:"0.99"`
	// Where an item of the sets holds what.
	Fields EvalFields `yaml:"fields" json:"fields,omitzero"`
	// What happens to them: flag only marks them, drop asks no teacher.
	Action string `yaml:"action" json:"action,omitempty" enum:"drop,flag" default:"flag"`
	// Which tasks it applies to; the same as when beside the name.
	When *When `yaml:"when" json:"-"`
}

// EvalFields are dotted paths into an item of an evaluation set.
type EvalFields struct {
	// Text of the question, or a list of messages; where absent, the first of prompt, messages, question, instruction, problem, query, input and text that the item has.
	Question string `yaml:"question" json:"question,omitempty"`
	// Text of the answer, which is looked for too; none where absent.
	Answer string `yaml:"answer" json:"answer,omitempty"`
}

// decodePromptStep reads a filter of prompts: a name, or {name: options} with an
// optional when.
func (d *decoder) decodePromptStep(n ast.Node, path string) PromptStep {
	var step PromptStep
	if isText(n) {
		step.Name, _ = d.text(n, path)
		d.texts[path] = step.Name
		d.promptStepOptions(n, nil, &step, path)
		return step
	}
	entries, ok := d.entries(n, path)
	if !ok {
		return step
	}
	for _, e := range entries {
		at := join(path, e.key)
		switch {
		case e.key == "when":
			if step.When != nil {
				d.fault(e.node, at, "when is there twice", "keep one")
			}
			d.decode(e.value, reflect.ValueOf(&step.When).Elem(), at, nil)
		case step.Name != "":
			d.fault(e.node, at, "a second filter in one entry", "start a new entry with a dash")
		default:
			step.Name = e.key
			d.texts[path] = e.key
			d.promptStepOptions(e.node, e.value, &step, at)
		}
	}
	if step.Name == "" {
		d.fault(n, path, "no filter is named", "write a filter's name, such as duplicate")
	}
	return step
}

// promptStepOptions decodes the options of the filter that the step names; value
// is nil where it has none.
func (d *decoder) promptStepOptions(at, value ast.Node, step *PromptStep, path string) {
	var into reflect.Value
	switch step.Name {
	case Duplicate:
		step.Duplicate = &DuplicateStep{}
		into = reflect.ValueOf(step.Duplicate).Elem()
	case NearDuplicate:
		step.NearDuplicate = &NearDuplicateStep{}
		into = reflect.ValueOf(step.NearDuplicate).Elem()
	case Contamination:
		step.Contamination = &ContaminationStep{}
		into = reflect.ValueOf(step.Contamination).Elem()
	default:
		d.fault(at, path, "unknown filter of prompts "+quote(step.Name), didYouMean(step.Name, promptFilterNames))
		return
	}
	if value != nil {
		d.decode(value, into, path, nil)
		if inner := into.FieldByName("When").Interface().(*When); inner != nil {
			if step.When != nil {
				d.fault(at, join(path, "when"), "when is there twice", "keep the one beside the name")
			}
			step.When = inner
		}
		return
	}
	if step.Name == Contamination {
		d.fault(at, join(path, "against"), "is missing", "write {contamination: {against: [eval/*.jsonl]}}")
		return
	}
	setDefault(into, &field{})
}

// maxPromptFilters bounds the steps of prompt_filter.
const maxPromptFilters = 32

// candidateWords are the words of a condition that only a candidate has.
func candidateWords() []string {
	task := []string{"domain", "effort", "gold", "group", "meta"}
	return slices.DeleteFunc(slices.Clone(whenWords), func(word string) bool { return slices.Contains(task, word) })
}

func (c *checker) promptFilters() {
	if len(c.r.PromptFilter) > maxPromptFilters {
		c.fault("prompt_filter", fmt.Sprintf("has %d steps, more than %d", len(c.r.PromptFilter), maxPromptFilters), "name several files under one against")
		return
	}
	seen := map[string]bool{}
	for i := range c.r.PromptFilter {
		s, path := &c.r.PromptFilter[i], indexed("prompt_filter", i)
		if s.Name != Contamination && seen[s.Name] {
			c.fault(path, s.Name+" is there twice", "remove one")
		}
		seen[s.Name] = true
		if s.When.Uses(candidateWords()...) {
			c.fault(path+".when", "a prompt is filtered before it is answered, and the condition looks at an answer", "use domain, effort, gold, group and meta")
		}
		if f := s.Contamination; f != nil {
			c.fieldPaths(fmt.Sprintf("%s.contamination.fields", path), map[string]string{"question": f.Fields.Question, "answer": f.Fields.Answer})
		}
	}
}
