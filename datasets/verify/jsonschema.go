package verify

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/stillhouse-data/stillhouse/datasets/internal/options"
)

// Limits of the json_schema verifier.
const (
	maxJSON       = 1 << 20   // of an answer's JSON, in bytes
	maxSchema     = 256 << 10 // of a schema, in bytes
	maxJSONDepth  = 128
	maxJSONNumber = 400 // digits and, apart, exponent: validation computes with exact numbers
	maxSchemas    = 256 // kept compiled
)

// newJSONSchema makes the verifier of structured output. The JSON is the whole
// answer, or its last fenced block; an answer without valid JSON fails.
//
// Option: schema, a map or JSON text; without it each task's tests are its
// schema. Schemas refer to nothing outside themselves: a remote $ref is an
// error.
func newJSONSchema(o *options.Set) *guarded {
	v := &schemaVerifier{compiled: make(map[[sha256.Size]byte]*meteredSchema)}
	if given := o.Any("schema"); given != nil {
		text, ok := given.(string)
		if !ok {
			b, err := json.Marshal(given)
			if err != nil {
				o.Fail("schema", "is no JSON: %v", err)
				return &guarded{"json_schema", "1", v.judge}
			}
			text = string(b)
		}
		schema, err := compileSchema(text)
		if err != nil {
			o.Fail("schema", "%v", err)
		}
		v.schema = schema
	}
	return &guarded{"json_schema", "1", v.judge}
}

type schemaVerifier struct {
	schema *meteredSchema

	mu       sync.Mutex
	compiled map[[sha256.Size]byte]*meteredSchema // of tasks; nil: does not compile
}

func (v *schemaVerifier) judge(_ context.Context, in Input) finding {
	schema := v.schema
	if schema == nil {
		if in.Tests == nil || strings.TrimSpace(*in.Tests) == "" {
			return unknown("task has no schema")
		}
		if schema = v.ofTask(*in.Tests); schema == nil {
			return unknown("schema of the task not readable")
		}
	}
	text, ok := findJSON(in.Content)
	if !ok {
		return finding{verdict: "fail", reason: "no JSON in answer"}
	}
	doc, err := readJSON(text, maxJSON)
	switch {
	case errors.Is(err, errTooLarge):
		return unknown("JSON too large to judge")
	case err != nil:
		return fail("not valid JSON", text)
	}
	switch err := schema.validate(doc, len(text)); {
	case errors.Is(err, errTooLarge):
		return unknown("schema too costly to judge")
	case err != nil:
		return fail("does not fit the schema"+keywordOf(err), text)
	}
	return pass("fits the schema", text)
}

// ofTask compiles a task's schema, or remembers it.
func (v *schemaVerifier) ofTask(text string) *meteredSchema {
	key := sha256.Sum256([]byte(text))
	v.mu.Lock()
	schema, ok := v.compiled[key]
	v.mu.Unlock()
	if ok {
		return schema
	}
	schema, err := compileSchema(text)
	if err != nil {
		schema = nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.compiled) >= maxSchemas {
		clear(v.compiled)
	}
	v.compiled[key] = schema
	return schema
}

// keywordOf names the keyword that the answer broke first, such as
// ": required": a reason to count by, without the answer's own words.
func keywordOf(err error) string {
	var ve *jsonschema.ValidationError
	if !errors.As(err, &ve) {
		return ""
	}
	for len(ve.Causes) > 0 {
		ve = ve.Causes[0]
	}
	path := ve.ErrorKind.KeywordPath()
	if len(path) == 0 {
		return ""
	}
	return ": " + path[0]
}

// findJSON is the whole answer where it looks like JSON, else its last fenced
// block; a block that is marked json goes before one that is not.
func findJSON(content string) (string, bool) {
	text := strings.TrimSpace(content)
	if text != "" && strings.ContainsRune(`{["`, rune(text[0])) || json.Valid([]byte(clip(text, 64))) {
		return text, true
	}
	last, marked := "", ""
	var block *strings.Builder
	fence, info := "", ""
	end := func() {
		if block == nil {
			return
		}
		if last = block.String(); strings.EqualFold(info, "json") {
			marked = last
		}
		block = nil
	}
	for line := range strings.Lines(text) {
		bare := strings.TrimSpace(line)
		ticks := bare[:len(bare)-len(strings.TrimLeft(bare, "`"))]
		switch {
		case block == nil && len(ticks) >= 3:
			fence, info = ticks, strings.TrimSpace(bare[len(ticks):])
			block = new(strings.Builder)
		case block != nil && bare == ticks && len(ticks) >= len(fence):
			end()
		case block != nil:
			block.WriteString(line)
		}
	}
	end()
	if marked != "" {
		last = marked
	}
	last = strings.TrimSpace(last)
	return last, last != ""
}

// readJSON decodes a text within bounds of size, depth and numbers. Numbers
// stay as written.
func readJSON(text string, maxBytes int) (any, error) {
	if len(text) > maxBytes || depthOf(text) > maxJSONDepth {
		return nil, errTooLarge
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	if !numbersBounded(doc) {
		return nil, errTooLarge
	}
	return doc, nil
}

// depthOf is how deep brackets nest, strings aside.
func depthOf(text string) int {
	depth, deepest, quoted := 0, 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == '{' || c == '['):
			depth++
			deepest = max(deepest, depth)
		case !quoted && (c == '}' || c == ']'):
			depth--
		}
	}
	return deepest
}

// numbersBounded tells whether exact arithmetic on every number is cheap.
func numbersBounded(doc any) bool {
	switch d := doc.(type) {
	case json.Number:
		mantissa, exponent, _ := strings.Cut(strings.ToLower(d.String()), "e")
		if exponent == "" {
			exponent = "0"
		}
		e, err := strconv.Atoi(exponent)
		return err == nil && len(mantissa) <= maxJSONNumber && e <= maxJSONNumber && e >= -maxJSONNumber
	case []any:
		for _, v := range d {
			if !numbersBounded(v) {
				return false
			}
		}
	case map[string]any:
		for _, v := range d {
			if !numbersBounded(v) {
				return false
			}
		}
	}
	return true
}
