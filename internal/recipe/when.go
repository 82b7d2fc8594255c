package recipe

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/vm"
)

// Env is what a condition sees. Its words are the fields' tags. Fields of a
// candidate are empty where only a task is known.
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
	Prompt           string         `expr:"prompt"`  // the last user message
	ToolCalls        int            `expr:"tool_calls"`
	ReasoningTokens  int            `expr:"reasoning_tokens"`
	Flags            []string       `expr:"flags"`
	ArgsValid        any            `expr:"args_valid"` // true or false; nil where there are no tool calls
	Score            any            `expr:"score"`      // a number; nil where no verifier gave one
	Extracted        string         `expr:"extracted"`  // the answer that the deciding verifier read; "" where there is none
}

// VerdictWords are the words of a condition that are known only once the
// verifiers have judged.
var VerdictWords = []string{"verdict", "score", "extracted"}

var whenWords = []string{
	"domain", "effort", "gold", "group", "meta", "teacher", "model", "content",
	"reasoning", "finish", "completion_tokens", "verdict", "sample",
	"reasoning_tokens", "flags", "args_valid", "score", "extracted", "prompt", "tool_calls",
}

// whenFunctions are the functions that a condition may call. None of them
// iterates, allocates more than it is given, or looks at the clock, so that a
// condition takes time and memory in proportion to the candidate.
var whenFunctions = []string{
	"len", "lower", "upper", "trim", "trimPrefix", "trimSuffix", "indexOf", "lastIndexOf",
	"hasPrefix", "hasSuffix", "int", "float", "string", "abs", "ceil", "floor", "round",
	"min", "max", "type", "get",
}

const maxWhen = 4096 // bytes of an expression

// A When is a condition in the expr language, compiled when the recipe is
// loaded. A nil When matches everything.
type When struct {
	source  string
	program *vm.Program
	words   []string // of Env that it looks at
}

// Uses tells whether the condition looks at one of some words.
func (w *When) Uses(words ...string) bool {
	if w == nil {
		return false
	}
	return slices.Contains(w.words, "$env") || // all of them
		slices.ContainsFunc(words, func(word string) bool { return slices.Contains(w.words, word) })
}

// String is the expression as it was written; "" for nil.
func (w *When) String() string {
	if w == nil {
		return ""
	}
	return w.source
}

// Match evaluates the condition. It fails where metadata is of another type
// than the expression needs.
func (w *When) Match(env Env) (bool, error) {
	if w == nil {
		return true, nil
	}
	out, err := expr.Run(w.program, env)
	if err != nil {
		return false, fmt.Errorf("when %q: %w", w.source, err)
	}
	ok, isBool := out.(bool)
	if !isBool {
		return false, fmt.Errorf("when %q: gives %T, want true or false", w.source, out)
	}
	return ok, nil
}

// compileWhen compiles an expression. Line and column of the fault count
// within it, from 1.
func compileWhen(source string) (*When, *Error) {
	if strings.TrimSpace(source) == "" {
		return nil, &Error{Line: 1, Col: 1, Msg: "the expression is empty", Hint: "remove the key to match everything"}
	}
	if len(source) > maxWhen {
		return nil, &Error{Line: 1, Col: 1, Msg: fmt.Sprintf("the expression is longer than %d bytes", maxWhen), Hint: "shorten it"}
	}
	plain := &plainVisitor{}
	options := []expr.Option{expr.Env(Env{}), expr.AsBool(), expr.MaxNodes(500), expr.DisableAllBuiltins(), expr.Patch(plain)}
	for _, name := range whenFunctions {
		options = append(options, expr.EnableBuiltin(name))
	}
	program, err := expr.Compile(source, options...)
	if plain.fault != "" {
		return nil, &Error{Line: 1, Col: 1 + plain.at, Msg: plain.fault, Hint: "compare fields with ==, in, contains, matches and join them with and, or, not"}
	}
	if err != nil {
		return nil, whenError(err)
	}
	return &When{source: source, program: program, words: plain.words}, nil
}

func whenError(err error) *Error {
	e := &Error{Line: 1, Col: 1, Msg: "is no expression: " + firstLine(err.Error()), Hint: "write it such as domain == \"math\" and len(content) > 10"}
	var at *file.Error
	if !errors.As(err, &at) {
		return e
	}
	e.Line, e.Col = max(1, at.Line), 1+max(0, at.Column)
	e.Msg = "is no expression: " + firstLine(at.Message)
	if word, ok := strings.CutPrefix(at.Message, "unknown name "); ok {
		word = strings.TrimSpace(firstLine(word))
		e.Msg, e.Hint = "unknown name "+quote(word), didYouMean(word, whenWords)
		if _, close := nearest(word, whenWords); !close {
			e.Hint = "texts stand in quotes; known names: " + strings.Join(whenWords, ", ")
		}
	}
	return e
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

// A plainVisitor refuses what can loop or grow: closures, ranges, variables,
// and patterns that come from data.
type plainVisitor struct {
	fault string
	at    int
	words []string // that it looks at
}

func (v *plainVisitor) Visit(node *ast.Node) {
	fault := ""
	switch n := (*node).(type) {
	case *ast.IdentifierNode:
		v.words = append(v.words, n.Value)
	case *ast.PredicateNode:
		fault = "loops are not allowed in a condition"
	case *ast.VariableDeclaratorNode:
		fault = "variables are not allowed in a condition"
	case *ast.BinaryNode:
		if n.Operator == ".." {
			fault = "ranges are not allowed in a condition"
		}
		if _, ok := n.Right.(*ast.StringNode); n.Operator == "matches" && !ok {
			fault = "the pattern after matches must be written out"
		}
	}
	if fault != "" && v.fault == "" {
		v.fault, v.at = fault, (*node).Location().From
	}
}
