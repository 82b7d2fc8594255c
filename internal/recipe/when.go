package recipe

import "github.com/expr-lang/expr/vm"

// Env is what a when expression sees. Its keys are the field's tags. Fields of
// a candidate are empty where only a task is known.
type Env struct {
	Domain           string         `expr:"domain"`
	Effort           string         `expr:"effort"`
	Gold             string         `expr:"gold"` // "" where there is none
	Group            string         `expr:"group"`
	Meta             map[string]any `expr:"meta"`
	Teacher          string         `expr:"teacher"`
	Model            string         `expr:"model"`
	Content          string         `expr:"content"`
	Reasoning        string         `expr:"reasoning"`
	Finish           string         `expr:"finish"`
	CompletionTokens int            `expr:"completion_tokens"`
	Verdict          string         `expr:"verdict"` // "" where no verifier applied
	Sample           int            `expr:"sample"`  // from 0
}

// A When is a condition, compiled when the recipe is loaded. A nil When
// matches everything.
type When struct {
	source  string
	program *vm.Program
}
