package recipe

import (
	"reflect"
	"slices"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// decodeUnit reads what is written as a number with a unit, or as a day.
func (d *decoder) decodeUnit(n ast.Node, v reflect.Value, path string) {
	if i, ok := n.(*ast.IntegerNode); ok && v.Type() == typeByteSize {
		number, ok := wholeNumber(i)
		if !ok || number < 1 {
			d.fault(n, path, "is no size", "write a number of bytes above 0, such as 64MiB")
			return
		}
		v.SetInt(number)
		return
	}
	if v.Type() != typeDate && !isText(n) {
		d.fault(n, path, "is "+kindOf(n)+", want a number with a unit", map[reflect.Type]string{
			typeDuration: "write it such as 90s, 2m or 7d",
			typeByteSize: "write it such as 64MiB",
		}[v.Type()])
		return
	}
	s, ok := d.text(n, path)
	if !ok {
		return
	}
	switch v.Type() {
	case typeDuration:
		value, err := ParseDuration(s)
		if err != nil || value <= 0 {
			d.fault(n, path, quote(s)+" is no duration above 0", "write it such as 90s, 2m or 7d, at most 366d")
			return
		}
		v.SetInt(int64(value))
	case typeByteSize:
		size, err := ParseByteSize(s)
		if err != nil || size < 1 {
			d.fault(n, path, quote(s)+" is no size", "write it such as 64MiB, 10MB or 4096")
			return
		}
		v.SetInt(int64(size))
	case typeDate:
		if _, err := time.Parse(time.DateOnly, s); err != nil {
			d.fault(n, path, quote(s)+" is no day", "write it such as 2026-11-01")
			return
		}
		v.SetString(s)
	}
}

// decodeAny reads a value of no declared shape: nil, bool, int64, float64,
// string, []any and map[string]any.
func (d *decoder) decodeAny(n ast.Node, path string) any {
	switch t := n.(type) {
	case *ast.NullNode:
		return nil
	case *ast.BoolNode:
		return t.Value
	case *ast.IntegerNode:
		i, ok := wholeNumber(t)
		if !ok {
			d.fault(n, path, "is beyond 2^53 and would lose digits in JSON", "write a smaller number, or a text in quotes")
		}
		return i
	case *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		f, ok := realNumber(n)
		if !ok {
			d.fault(n, path, "is a number that JSON does not have", "write a finite number")
		}
		return f
	case *ast.SequenceNode:
		out := make([]any, len(t.Values))
		for i := range t.Values {
			d.decode(t.Values[i], reflect.ValueOf(&out[i]).Elem(), indexed(path, i), nil)
		}
		return out
	case ast.MapNode:
		entries, _ := d.entries(n, path)
		out := make(map[string]any, len(entries))
		for _, e := range entries {
			var value any
			d.decode(e.value, reflect.ValueOf(&value).Elem(), join(path, e.key), nil)
			out[e.key] = value
		}
		return out
	}
	s, _ := d.text(n, path)
	return s
}

// decodeWhen compiles a condition; a fault inside it has its own column.
func (d *decoder) decodeWhen(n ast.Node, path string) *When {
	s, ok := d.text(n, path)
	if !ok {
		return nil
	}
	w, fault := compileWhen(s)
	if fault == nil {
		return w
	}
	at := positionOf(n)
	// Within a text of one line the column is known; a text that YAML folded
	// is reported where it starts.
	if t := n.GetToken(); fault.Line == 1 && t.Value == s {
		at.col += fault.Col - 1
		if t.Type == token.SingleQuoteType || t.Type == token.DoubleQuoteType {
			at.col++
		}
	}
	d.errs = append(d.errs, &Error{File: d.file, Line: at.line, Col: at.col, Path: path, Msg: fault.Msg, Hint: fault.Hint})
	return nil
}

// decodeRoute reads domain, all or {rules: […]}.
func (d *decoder) decodeRoute(n ast.Node, path string) Route {
	if isText(n) {
		s, _ := d.text(n, path)
		words := []string{RouteDomain, RouteAll}
		if !slices.Contains(words, s) {
			d.fault(n, path, quote(s)+" is no route", "write domain, all, or rules: [{when: …, teachers: […]}]")
		}
		return Route{Kind: s}
	}
	var rules struct {
		Rules []RouteRule `yaml:"rules" required:"true"`
	}
	d.decode(n, reflect.ValueOf(&rules).Elem(), path, nil)
	return Route{Kind: RouteRules, Rules: rules.Rules}
}

// decodeSamples reads a number or {min, max, until_pass}.
func (d *decoder) decodeSamples(n ast.Node, v reflect.Value, path string, f *field) {
	if _, ok := n.(*ast.IntegerNode); ok {
		var count int
		bounds := *f
		bounds.min, bounds.max = "1", "1024"
		d.decodeScalar(n, reflect.ValueOf(&count).Elem(), path, &bounds)
		v.Set(reflect.ValueOf(Samples{Min: count, Max: count}))
		return
	}
	if _, ok := n.(ast.MapNode); !ok {
		d.fault(n, path, "is "+kindOf(n)+", want a number", "write samples: 4")
		return
	}
	d.decodeStruct(n, v, path)
	if s := v.Interface().(Samples); s.Min > s.Max {
		d.fault(n, path, "min is more than max", "raise max")
	}
}

// decodeProfile reads the name of a profile, or {base, …}.
func (d *decoder) decodeProfile(n ast.Node, v reflect.Value, path string) {
	if !isText(n) {
		d.decodeStruct(n, v, path)
		return
	}
	base := sectionOf(typeProfile).field("base")
	d.decodeScalar(n, v.Field(base.index), path, base)
}

// decodeStep reads a filter: a name, or {name: options} with an optional when.
func (d *decoder) decodeStep(n ast.Node, path string) FilterStep {
	if isText(n) {
		s, _ := d.text(n, path)
		d.texts[path] = s
		return FilterStep{Name: s}
	}
	var step FilterStep
	entries, ok := d.entries(n, path)
	if !ok {
		return step
	}
	for _, e := range entries {
		at := join(path, e.key)
		switch {
		case e.key == "when":
			d.decode(e.value, reflect.ValueOf(&step.When).Elem(), at, nil)
		case step.Name != "":
			d.fault(e.node, at, "a second filter in one entry", "start a new entry with a dash")
		default:
			step.Name = e.key
			d.texts[path] = e.key
			d.decodeFilterOptions(e, &step, at)
		}
	}
	if step.Name == "" {
		d.fault(n, path, "no filter is named", "write a filter's name, such as finish")
	}
	return step
}

func (d *decoder) decodeStepOptions(e entry, step *FilterStep, path string) {
	value := d.enter(e.value, path)
	if value == nil || value.Type() == ast.NullType {
		return
	}
	if _, ok := value.(ast.MapNode); !ok {
		var plain any
		d.decode(value, reflect.ValueOf(&plain).Elem(), path, nil)
		step.Options = map[string]any{"value": plain}
		return
	}
	d.places[path] = positionOf(value)
	options, _ := d.entries(value, path)
	for _, o := range options {
		at := join(path, o.key)
		if o.key == "when" {
			d.decode(o.value, reflect.ValueOf(&step.When).Elem(), at, nil)
			continue
		}
		if step.Options == nil {
			step.Options = map[string]any{}
		}
		var plain any
		d.decode(o.value, reflect.ValueOf(&plain).Elem(), at, nil)
		step.Options[o.key] = plain
	}
}
