package verify

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/internal/options"
	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// Limits of the tool_calls verifier.
const (
	maxCalls    = 64        // of one answer
	maxTools    = 1000      // that a prompt declares
	maxToolText = 1 << 20   // of their declarations, in bytes
	maxToolSets = 64        // kept compiled
	maxArgs     = 256 << 10 // of one call's arguments, in bytes
)

// What the tool_calls verifier expects of an answer.
const (
	expectGiven = "given" // the calls of the task's tests, or of its gold answer
	expectAny   = "any"   // one call or more, of declared tools and valid
	expectNone  = "none"  // no call
)

// newToolCalls checks the tool calls of an answer: each is of a tool that the
// prompt declares, with arguments that its JSON Schema allows, and they are the
// expected ones.
//
// Options: expect (see expectGiven; default given); schema (default true) has
// the arguments checked against the declarations; order (default false) asks
// for the calls in the order of the expected ones; extra_calls (default false)
// allows more of them; extra_args says which arguments beside the expected ones
// are allowed: none (default), default, where the schema declares that value as
// its default, or any; unordered_lists (default false) compares lists in
// arguments as if they were sorted; case (default true) tells upper from lower
// case in texts of arguments. Numbers are equal by value: 1 is 1.0.
//
// Expected calls are JSON: one call or a list, each {"name", "arguments"}, with
// arguments as an object or as its JSON text, or the same inside "function". An
// empty list expects that nothing is called.
func newToolCalls(o *options.Set) *guarded {
	v := &toolVerifier{
		expect: o.String("expect", expectGiven), schema: o.Bool("schema", true), order: o.Bool("order", false),
		extraCalls: o.Bool("extra_calls", false), extraArgs: o.String("extra_args", "none"),
		equal: equality{unordered: o.Bool("unordered_lists", false), fold: !o.Bool("case", true)},
		sets:  map[[sha256.Size]byte]*toolSet{},
	}
	oneOf(o, "expect", v.expect, expectGiven, expectAny, expectNone)
	oneOf(o, "extra_args", v.extraArgs, "none", "default", "any")
	return &guarded{"tool_calls", "1", v.judge}
}

// oneOf refuses an option that is none of some words.
func oneOf(o *options.Set, name, value string, words ...string) {
	if !slices.Contains(words, value) {
		o.Fail(name, "%q is none of %s; %s", value, strings.Join(words, ", "), options.Hint(value, words))
	}
}

type toolVerifier struct {
	expect        string
	schema, order bool
	extraCalls    bool
	extraArgs     string
	equal         equality
	mu            sync.Mutex
	sets          map[[sha256.Size]byte]*toolSet
}

// A call is one that is made or expected.
type call struct {
	name string
	args map[string]any
}

func (v *toolVerifier) judge(_ context.Context, in Input) finding {
	var made []chat.ToolCall
	if in.Answer != nil {
		made = in.Answer.ToolCalls
	}
	if len(made) > maxCalls {
		return unknown("too many calls to judge")
	}
	want, why := v.expected(in)
	if why != "" {
		return unknown(why)
	}
	calls, f := readCalls(made)
	if f != nil {
		return *f
	}
	if v.schema {
		if in.Prompt == nil || in.Prompt.Tools == "" {
			return unknown("prompt declares no tools")
		}
		tools := v.toolsOf(in.Prompt.Tools)
		if tools.why != "" {
			return unknown(tools.why)
		}
		if f := tools.check(calls); f != nil {
			return f.saw(showCalls(calls))
		}
	}
	return v.compare(calls, want, v.defaults(in)).saw(showCalls(calls))
}

// compare holds the calls against the expected ones.
func (v *toolVerifier) compare(calls, want []call, defaults func(tool string) map[string]any) finding {
	ok := finding{verdict: datasets.Pass, reason: "as expected"}
	switch {
	case v.expect == expectAny && len(calls) == 0, v.expect == expectGiven && len(want) > 0 && len(calls) == 0:
		return wrong("no call")
	case v.expect == expectAny:
		return finding{verdict: datasets.Pass, reason: "valid"}
	case v.expect == expectNone && len(calls) > 0, len(want) == 0 && len(calls) > 0:
		return wrong("a call where none is expected")
	case len(calls) < len(want):
		return wrong("calls missing")
	case len(calls) > len(want) && !v.extraCalls:
		return wrong("more calls than expected")
	}
	if names := func(list []call) []string {
		out := make([]string, len(list))
		for i := range list {
			out[i] = list[i].name
		}
		slices.Sort(out)
		return out
	}; !v.extraCalls && !slices.Equal(names(calls), names(want)) {
		return wrong("another tool")
	}
	same := func(w, c int) bool { return v.same(&want[w], &calls[c], defaults) }
	if v.order && inOrder(len(want), len(calls), same) || !v.order && matches(len(want), len(calls), same) {
		return ok
	}
	if v.order && matches(len(want), len(calls), same) {
		return wrong("calls in another order")
	}
	return wrong("other arguments")
}

// same tells whether a call is the expected one.
func (v *toolVerifier) same(want, made *call, defaults func(string) map[string]any) bool {
	if want.name != made.name {
		return false
	}
	for name, w := range want.args {
		if got, ok := made.args[name]; !ok || !v.equal.values(w, got) {
			return false
		}
	}
	if v.extraArgs == "any" || len(made.args) == len(want.args) {
		return true
	}
	if v.extraArgs == "none" {
		return false
	}
	declared := defaults(made.name)
	for name, got := range made.args {
		if _, expected := want.args[name]; expected {
			continue
		}
		if def, ok := declared[name]; !ok || !v.equal.values(def, got) {
			return false
		}
	}
	return true
}

// defaults gives the declared default values of a tool's arguments.
func (v *toolVerifier) defaults(in Input) func(tool string) map[string]any {
	return func(tool string) map[string]any {
		if in.Prompt == nil || in.Prompt.Tools == "" {
			return nil
		}
		return v.toolsOf(in.Prompt.Tools).defaults[tool]
	}
}

// inOrder tells whether the wanted calls are among those made, in their order.
func inOrder(want, made int, same func(w, m int) bool) bool {
	w := 0
	for m := 0; m < made && w < want; m++ {
		if same(w, m) {
			w++
		}
	}
	return w == want
}

// matches tells whether each wanted call can have one of those made for itself,
// by augmenting paths (Kuhn): which one fits is not always the first that does,
// where further arguments are allowed.
func matches(want, made int, same func(w, m int) bool) bool {
	fits := make([][]int, want)
	for w := range fits {
		for m := range made {
			if same(w, m) {
				fits[w] = append(fits[w], m)
			}
		}
	}
	taken := make([]int, made)
	for i := range taken {
		taken[i] = -1
	}
	var seen []bool
	var place func(w int) bool
	place = func(w int) bool {
		for _, m := range fits[w] {
			if seen[m] {
				continue
			}
			seen[m] = true
			if taken[m] < 0 || place(taken[m]) {
				taken[m] = w
				return true
			}
		}
		return false
	}
	for w := range want {
		seen = make([]bool, made)
		if !place(w) {
			return false
		}
	}
	return true
}

// readCalls reads the calls of an answer.
func readCalls(made []chat.ToolCall) ([]call, *finding) {
	out := make([]call, len(made))
	for i := range made {
		args, err := readArgs(made[i].Arguments)
		switch {
		case errors.Is(err, errTooLarge):
			f := unknown("arguments too large to judge")
			return nil, &f
		case err != nil:
			f := fail("arguments are no JSON object", made[i].Name)
			return nil, &f
		}
		out[i] = call{name: made[i].Name, args: args}
	}
	return out, nil
}

var errNoObject = errors.New("no JSON object")

// readArgs reads the arguments of a call. Endpoints write none as an empty text.
func readArgs(text string) (map[string]any, error) {
	if strings.TrimSpace(text) == "" {
		return map[string]any{}, nil
	}
	doc, err := readJSON(text, maxArgs)
	if err != nil {
		return nil, err
	}
	args, ok := doc.(map[string]any)
	if !ok {
		return nil, errNoObject
	}
	return args, nil
}

// expected are the calls that the task expects; why says that they cannot be
// read.
func (v *toolVerifier) expected(in Input) (want []call, why string) {
	if v.expect != expectGiven {
		return nil, ""
	}
	var text string
	switch {
	case in.Tests != nil && strings.TrimSpace(*in.Tests) != "":
		text = *in.Tests
	case in.Gold != nil && strings.TrimSpace(*in.Gold) != "":
		text = *in.Gold
	default:
		return nil, "task has no expected call"
	}
	doc, err := readJSON(strings.TrimSpace(text), maxToolText)
	if err != nil {
		return nil, "expected call not readable"
	}
	list, ok := doc.([]any)
	if !ok {
		list = []any{doc}
	}
	if len(list) > maxCalls {
		return nil, "too many expected calls"
	}
	for _, one := range list {
		c, ok := expectedCall(one)
		if !ok {
			return nil, "expected call not readable"
		}
		want = append(want, c)
	}
	return want, ""
}

func expectedCall(doc any) (call, bool) {
	m, ok := doc.(map[string]any)
	if !ok {
		return call{}, false
	}
	if inner, ok := m["function"].(map[string]any); ok {
		m = inner
	}
	name, ok := m["name"].(string)
	if !ok || name == "" {
		return call{}, false
	}
	given, ok := m["arguments"]
	if !ok {
		given = m["input"] // as Anthropic's protocol calls them
	}
	switch args := given.(type) {
	case nil:
		return call{name, map[string]any{}}, true
	case map[string]any:
		return call{name, args}, true
	case string:
		read, err := readArgs(args)
		return call{name, read}, err == nil
	}
	return call{}, false
}

// showCalls is the calls as JSON, for whoever reads a verdict.
func showCalls(calls []call) string {
	type shown struct {
		Name      string         `json:"name"`
		Arguments map[string]any `json:"arguments"`
	}
	list := make([]shown, len(calls))
	for i := range calls {
		list[i] = shown{calls[i].name, calls[i].args}
	}
	text, err := json.Marshal(list)
	if err != nil {
		return ""
	}
	return string(text)
}

// A toolSet is the tools that a prompt declares.
type toolSet struct {
	schemas  map[string]*meteredSchema // nil: any arguments
	defaults map[string]map[string]any
	why      string // it cannot be used
}

// check holds calls against the declarations; nil where they are valid.
func (s *toolSet) check(calls []call) *finding {
	for i := range calls {
		c := &calls[i]
		var f finding
		schema, known := s.schemas[c.name]
		if !known {
			f = wrong("unknown tool")
			return &f
		}
		if schema == nil {
			continue
		}
		size := 0
		if text, err := json.Marshal(c.args); err == nil {
			size = len(text)
		}
		switch err := schema.validate(c.args, size); {
		case errors.Is(err, errTooLarge):
			f = unknown("schema too costly to judge")
			return &f
		case err != nil:
			f = wrong("arguments do not fit the tool's schema" + keywordOf(err))
			return &f
		}
	}
	return nil
}

// toolsOf reads the declarations of a prompt, or remembers them.
func (v *toolVerifier) toolsOf(text string) *toolSet {
	key := sha256.Sum256([]byte(text))
	v.mu.Lock()
	set := v.sets[key]
	v.mu.Unlock()
	if set != nil {
		return set
	}
	set = readTools(text)
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.sets) >= maxToolSets {
		clear(v.sets)
	}
	v.sets[key] = set
	return set
}

func readTools(text string) *toolSet {
	set := &toolSet{schemas: map[string]*meteredSchema{}, defaults: map[string]map[string]any{}}
	doc, err := readJSON(text, maxToolText)
	if err != nil {
		set.why = "tools of the prompt not readable"
		return set
	}
	list, ok := doc.([]any)
	if !ok {
		list = []any{doc}
	}
	if len(list) > maxTools {
		set.why = "too many tools to judge"
		return set
	}
	for _, one := range list {
		tool, ok := one.(map[string]any)
		if inner, is := tool["function"].(map[string]any); is {
			tool = inner
		}
		name, named := tool["name"].(string)
		if !ok || !named {
			set.why = "tools of the prompt not readable"
			return set
		}
		parameters := firstOf(tool, "parameters", "input_schema")
		if parameters == nil {
			set.schemas[name] = nil
			continue
		}
		schema, err := json.Marshal(parameters)
		if err != nil {
			set.why = "tools of the prompt not readable"
			return set
		}
		compiled, err := compileSchema(string(schema))
		if err != nil {
			set.why = fmt.Sprintf("schema of tool %s not usable", clip(name, 64))
			return set
		}
		set.schemas[name], set.defaults[name] = compiled, defaultsOf(parameters)
	}
	return set
}

func firstOf(m map[string]any, keys ...string) any {
	for _, k := range keys {
		if v, ok := m[k]; ok && v != nil {
			return v
		}
	}
	return nil
}

// defaultsOf are the default values of a schema's properties.
func defaultsOf(schema any) map[string]any {
	m, _ := schema.(map[string]any)
	properties, _ := m["properties"].(map[string]any)
	out := map[string]any{}
	for name, p := range properties {
		if declared, ok := p.(map[string]any); ok {
			if def, ok := declared["default"]; ok {
				out[name] = def
			}
		}
	}
	return out
}
