package verify

import (
	"errors"
	"fmt"
	"reflect"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// errTooLarge says that what is to be judged exceeds a limit.
var errTooLarge = errors.New("too large")

// freeEvaluations is how many times the parts of one schema are applied to one
// document, beside once for each of its bytes. Real schemas need fewer; one
// whose alternatives refer to each other may need exponentially many.
const freeEvaluations = 100_000

// A meteredSchema validates within a number of evaluations.
type meteredSchema struct {
	schema *jsonschema.Schema

	mu   sync.Mutex // one validation at a time counts
	left int
}

// meter puts a counter before every part of the compiled schema. The library
// offers no limit, but applies a part's format before all that the part holds.
func (m *meteredSchema) meter() {
	seen := make(map[*jsonschema.Schema]bool)
	var visit func(v reflect.Value)
	visit = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Interface:
			visit(v.Elem())
		case reflect.Slice:
			for i := range v.Len() {
				visit(v.Index(i))
			}
		case reflect.Map:
			for _, key := range v.MapKeys() {
				visit(v.MapIndex(key))
			}
		case reflect.Pointer:
			s, ok := v.Interface().(*jsonschema.Schema)
			if !ok || s == nil || seen[s] {
				return
			}
			seen[s] = true
			m.count(s)
			for i := range v.Elem().NumField() {
				if v.Elem().Type().Field(i).IsExported() {
					visit(v.Elem().Field(i))
				}
			}
		}
	}
	visit(reflect.ValueOf(m.schema))
}

// spend takes evaluations off what is left.
func (m *meteredSchema) spend(n int) {
	if m.left -= n; m.left < 0 {
		panic(errTooLarge)
	}
}

// A meteredPattern is a pattern of a schema, whose searches count.
type meteredPattern struct {
	*pattern
	meter *meteredSchema
}

// statesPerEvaluation is how much matching costs as much as one evaluation.
const statesPerEvaluation = 500

func (m *meteredSchema) pattern(text string) (jsonschema.Regexp, error) {
	p, err := compilePattern(text)
	if err != nil {
		return nil, err
	}
	return &meteredPattern{p, m}, nil
}

// MatchString implements jsonschema.Regexp.
func (p *meteredPattern) MatchString(text string) bool {
	p.meter.spend(p.states * len(text) / statesPerEvaluation)
	return p.pattern.MatchString(text)
}

func (m *meteredSchema) count(s *jsonschema.Schema) {
	inner := s.Format
	counted := &jsonschema.Format{}
	if inner != nil {
		counted.Name = inner.Name
	}
	counted.Validate = func(v any) error {
		m.spend(1)
		if inner == nil {
			return nil
		}
		return inner.Validate(v)
	}
	s.Format = counted
}

// validate is nil where doc, size bytes of JSON, fits, errTooLarge where that cannot be said in
// time, else the library's error.
func (m *meteredSchema) validate(doc any, size int) (err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer func() {
		switch r := recover(); r {
		case nil:
		case errTooLarge:
			err = errTooLarge
		default:
			panic(r)
		}
	}()
	m.left = freeEvaluations + size
	return m.schema.Validate(doc)
}

// noLoader refuses every schema outside the given one.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("schema refers to %s; a schema must hold all that it uses, so put it under $defs", url)
}

func compileSchema(text string) (schema *meteredSchema, err error) {
	defer func() {
		if r := recover(); r != nil {
			schema, err = nil, errors.New("schema cannot be compiled")
		}
	}()
	doc, err := readJSON(text, maxSchema)
	if err != nil {
		return nil, fmt.Errorf("schema is no JSON that can be used: %w", err)
	}
	if key := dynamicKey(doc); key != "" {
		return nil, fmt.Errorf("schema uses %s, which is not supported; use $ref", key)
	}
	m := &meteredSchema{left: freeEvaluations + len(text)} // compiling validates the schema itself
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	c.UseRegexpEngine(m.pattern)
	const here = "schema:task"
	if err := c.AddResource(here, doc); err != nil {
		return nil, err
	}
	if m.schema, err = c.Compile(here); err != nil {
		return nil, err
	}
	m.meter()
	return m, nil
}

// dynamicKey is a reference whose target only the validation knows, so that
// nothing can count there; "" for none.
func dynamicKey(doc any) string {
	switch d := doc.(type) {
	case []any:
		for _, v := range d {
			if key := dynamicKey(v); key != "" {
				return key
			}
		}
	case map[string]any:
		for key, v := range d {
			if key == "$dynamicRef" || key == "$recursiveRef" {
				return key
			}
			if key := dynamicKey(v); key != "" {
				return key
			}
		}
	}
	return ""
}
