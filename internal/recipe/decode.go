package recipe

import (
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// A decoder walks the YAML and the declared structs side by side. It goes on
// after a fault, so that all of them are reported at once.
type decoder struct {
	file    string
	errs    Errors
	places  map[string]place
	texts   map[string]string
	anchors map[string]ast.Node
	nodes   int
	depth   int
	full    bool // maxNodes was reported
}

func (d *decoder) fault(n ast.Node, path, msg, hint string) {
	at := positionOf(n)
	d.errs = append(d.errs, &Error{File: d.file, Line: at.line, Col: at.col, Path: path, Msg: msg, Hint: hint})
}

// enter resolves aliases and bounds the walk. It returns nil where the walk
// must not go on.
func (d *decoder) enter(n ast.Node, path string) ast.Node {
	for range maxDepth {
		if d.nodes++; d.nodes > maxNodes {
			if !d.full {
				d.fault(n, path, "the recipe holds too much", "aliases multiply what they repeat; write fewer of them")
			}
			d.full = true
			return nil
		}
		switch t := n.(type) {
		case *ast.AnchorNode:
			d.anchors[t.Name.String()] = t.Value
			n = t.Value
		case *ast.AliasNode:
			target, ok := d.anchors[t.Value.String()]
			if !ok {
				d.fault(n, path, "no anchor "+quote("&"+t.Value.String())+" comes before this alias", "write the value out")
				return nil
			}
			n = target
		case *ast.TagNode:
			d.fault(n, path, "a YAML tag is not allowed here", "remove "+quote(t.Start.Value))
			return nil
		case nil:
			return nil
		default:
			return n
		}
	}
	d.fault(n, path, "an alias refers to itself", "write the value out")
	return nil
}

// decode fills v from n. f is the field that v is, or nil.
func (d *decoder) decode(n ast.Node, v reflect.Value, path string, f *field) {
	if d.depth++; d.depth > maxDepth {
		d.fault(n, path, "is nested too deeply", "an alias may refer to itself; write the value out")
		d.depth--
		return
	}
	defer func() { d.depth-- }()
	at := positionOf(n)
	if n = d.enter(n, path); n == nil {
		return
	}
	if path != "" {
		d.places[path] = at
	}
	if v.Kind() != reflect.Interface && n.Type() == ast.NullType {
		d.fault(n, path, "has no value", "give it one or remove the key")
		return
	}
	switch v.Type() {
	case typeDuration, typeByteSize, typeDate:
		d.decodeUnit(n, v, path)
		return
	case typeWhen:
		v.Set(reflect.ValueOf(d.decodeWhen(n, path)))
		return
	case typeRoute:
		v.Set(reflect.ValueOf(d.decodeRoute(n, path)))
		return
	case typeSamples:
		d.decodeSamples(n, v, path, f)
		return
	case typeProfile:
		d.decodeProfile(n, v, path)
		return
	case typeStep:
		v.Set(reflect.ValueOf(d.decodeStep(n, path)))
		return
	case typePromptStep:
		v.Set(reflect.ValueOf(d.decodePromptStep(n, path)))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.decode(n, v.Elem(), path, f)
	case reflect.Struct:
		d.decodeStruct(n, v, path)
	case reflect.Slice:
		d.decodeSlice(n, v, path, f)
	case reflect.Map:
		d.decodeMap(n, v, path, f)
	case reflect.Interface:
		if value := d.decodeAny(n, path); value != nil {
			v.Set(reflect.ValueOf(value))
		}
	default:
		d.decodeScalar(n, v, path, f)
	}
}

// An entry is one key of a mapping with its value.
type entry struct {
	key   string
	node  ast.Node // of the key
	value ast.Node
}

// entries reads a mapping: no key twice, no merge key, every key a text.
func (d *decoder) entries(n ast.Node, path string) ([]entry, bool) {
	m, ok := n.(ast.MapNode)
	if !ok {
		d.fault(n, path, "is "+kindOf(n)+", want keys with values", "write it as key: value")
		return nil, false
	}
	var out []entry
	seen := map[string]place{}
	for it := m.MapRange(); it.Next(); {
		node := ast.Node(it.Key())
		if it.Key().IsMergeKey() {
			d.fault(node, path, "merge keys (<<) are not allowed", "write the keys out, or alias the whole value")
			continue
		}
		key, ok := keyText(node)
		if !ok {
			d.fault(node, path, "a key is "+kindOf(node)+", want a text", "write a plain word before the colon")
			continue
		}
		if first, ok := seen[key]; ok {
			d.fault(node, join(path, key), "the key is there twice", fmt.Sprintf("the first is at line %d; remove one", first.line))
			continue
		}
		seen[key] = positionOf(node)
		out = append(out, entry{key, node, it.Value()})
	}
	return out, true
}

// keyText is a key as it was written; numbers and the like are texts there.
func keyText(n ast.Node) (string, bool) {
	switch k := n.(type) {
	case *ast.StringNode:
		return k.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
		return n.GetToken().Value, true
	}
	return "", false
}

// plainKey is a key that stands in a path as it is; any other is quoted there.
var plainKey = regexp.MustCompile(`^[A-Za-z0-9_.:$@+-]{1,64}$`)

func join(path, key string) string {
	if !plainKey.MatchString(key) {
		key = quote(key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

func (d *decoder) decodeStruct(n ast.Node, v reflect.Value, path string) {
	entries, ok := d.entries(n, path)
	if !ok {
		return
	}
	s := sectionOf(v.Type())
	given := map[string]bool{}
	for _, e := range entries {
		f := s.field(e.key)
		switch {
		case f != nil:
			given[e.key] = true
			d.decode(e.value, v.Field(f.index), join(path, e.key), f)
		case s.inline >= 0 && !d.misspelt(e, s, path):
			options := v.Field(s.inline)
			if options.IsNil() {
				options.Set(reflect.MakeMap(options.Type()))
			}
			value := reflect.New(options.Type().Elem()).Elem()
			d.decode(e.value, value, join(path, e.key), nil)
			options.SetMapIndex(reflect.ValueOf(e.key), value)
		case s.inline < 0:
			msg, hint := unknownKey(v.Type().Name(), e.key, s.keys())
			d.fault(e.node, join(path, e.key), msg, hint)
		}
	}
	for i := range s.fields {
		f := &s.fields[i]
		if f.required && !given[f.key] {
			d.fault(n, join(path, f.key), "is missing", "add "+f.key+": …")
		}
		if !given[f.key] {
			setDefault(v.Field(f.index), f)
		}
	}
}

// misspelt reports a key beside inline options that is one letter off a
// declared one: a "whem" that is taken for an option would check everything.
func (d *decoder) misspelt(e entry, s *section, path string) bool {
	best, _ := nearest(e.key, s.keys())
	if distance(fold(e.key), fold(best)) > 1 {
		return false
	}
	d.fault(e.node, join(path, e.key), "unknown key "+quote(e.key), "did you mean "+quote(best)+"?")
	return true
}

// setDefault gives an absent key its declared meaning, through all levels.
func setDefault(v reflect.Value, f *field) {
	if f.hasDef {
		setText(v, f.def)
		return
	}
	if v.Kind() != reflect.Struct || v.Type() == typeRoute || v.Type() == typeSamples {
		return
	}
	s := sectionOf(v.Type())
	for i := range s.fields {
		setDefault(v.Field(s.fields[i].index), &s.fields[i])
	}
}

// setText sets a declared default. The declarations are ours: a text that does
// not fit is a fault of the program, and a test walks them all.
func setText(v reflect.Value, text string) {
	var err error
	switch v.Type() {
	case typeDuration:
		var value time.Duration
		value, err = ParseDuration(text)
		v.SetInt(int64(value))
	case typeByteSize:
		var size ByteSize
		size, err = ParseByteSize(text)
		v.SetInt(int64(size))
	case typeRoute:
		v.Set(reflect.ValueOf(Route{Kind: text}))
	case typeSamples:
		n, _ := strconv.Atoi(text)
		v.Set(reflect.ValueOf(Samples{Min: n, Max: n}))
	default:
		switch v.Kind() {
		case reflect.String:
			v.SetString(text)
		case reflect.Int, reflect.Int64:
			var n int64
			n, err = strconv.ParseInt(text, 10, 64)
			v.SetInt(n)
		default:
			err = fmt.Errorf("no default for %s", v.Type())
		}
	}
	if err != nil {
		panic("recipe: declared default " + strconv.Quote(text) + ": " + err.Error())
	}
}

func (d *decoder) decodeSlice(n ast.Node, v reflect.Value, path string, f *field) {
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		if v.Type().Elem().Kind() == reflect.String && isText(n) {
			// One text where a list of texts may be.
			one := reflect.New(v.Type().Elem()).Elem()
			d.decode(n, one, path, f)
			v.Set(reflect.Append(v, one))
			return
		}
		d.fault(n, path, "is "+kindOf(n)+", want a list", "start each entry with a dash: - …")
		return
	}
	if len(list.Values) == 0 && f != nil && f.required {
		d.fault(n, path, "is an empty list", "give it at least one entry")
	}
	out := reflect.MakeSlice(v.Type(), len(list.Values), len(list.Values))
	for i, item := range list.Values {
		d.decode(item, out.Index(i), fmt.Sprintf("%s[%d]", path, i), nil)
	}
	v.Set(out)
}

func (d *decoder) decodeMap(n ast.Node, v reflect.Value, path string, f *field) {
	entries, ok := d.entries(n, path)
	if !ok {
		return
	}
	v.Set(reflect.MakeMapWithSize(v.Type(), len(entries)))
	for _, e := range entries {
		value := reflect.New(v.Type().Elem()).Elem()
		d.decode(e.value, value, join(path, e.key), f)
		v.SetMapIndex(reflect.ValueOf(e.key), value)
	}
}

func (d *decoder) decodeScalar(n ast.Node, v reflect.Value, path string, f *field) {
	switch v.Kind() {
	case reflect.String:
		if s, ok := d.text(n, path); ok {
			v.SetString(s)
			d.texts[path] = s
			d.checkText(n, s, path, f)
		}
	case reflect.Bool:
		b, ok := n.(*ast.BoolNode)
		if !ok {
			d.fault(n, path, "is "+kindOf(n)+", want true or false", "write true or false without quotes")
			return
		}
		v.SetBool(b.Value)
	case reflect.Int, reflect.Int64:
		i, ok := n.(*ast.IntegerNode)
		if !ok {
			d.fault(n, path, "is "+kindOf(n)+", want a whole number", "write it without quotes and without a fraction")
			return
		}
		number, ok := wholeNumber(i)
		if !ok {
			d.fault(n, path, "is out of range", "write a number below 2^53")
			return
		}
		v.SetInt(number)
		d.checkRange(n, float64(number), path, f)
	case reflect.Float64:
		number, ok := realNumber(n)
		if !ok {
			d.fault(n, path, "is "+kindOf(n)+", want a number", "write it without quotes")
			return
		}
		v.SetFloat(number)
		d.checkRange(n, number, path, f)
	default:
		panic("recipe: no decoding for " + v.Type().String())
	}
}

func isText(n ast.Node) bool {
	return n.Type() == ast.StringType || n.Type() == ast.LiteralType
}

// text reads a text; a number or a word like true must be quoted to be one.
func (d *decoder) text(n ast.Node, path string) (string, bool) {
	switch s := n.(type) {
	case *ast.StringNode:
		return s.Value, true
	case *ast.LiteralNode:
		return s.Value.Value, true
	case ast.ScalarNode:
		d.fault(n, path, "is "+kindOf(n)+", want a text", "put it in quotes")
	default:
		d.fault(n, path, "is "+kindOf(n)+", want a text", "write one value here")
	}
	return "", false
}

func wholeNumber(n *ast.IntegerNode) (int64, bool) {
	const exact = 1 << 53 // beyond it a JSON number is not exact
	switch i := n.Value.(type) {
	case int64:
		return i, i >= -exact && i <= exact
	case uint64:
		return int64(i), i <= exact
	}
	return 0, false
}

func realNumber(n ast.Node) (float64, bool) {
	switch r := n.(type) {
	case *ast.IntegerNode:
		i, ok := wholeNumber(r)
		return float64(i), ok
	case *ast.FloatNode:
		return r.Value, !math.IsNaN(r.Value) && !math.IsInf(r.Value, 0)
	}
	return 0, false
}

func (d *decoder) checkText(n ast.Node, s, path string, f *field) {
	if f == nil {
		return
	}
	switch {
	case s == "":
		d.fault(n, path, "is empty", "give it a value or remove the key")
	case strings.ContainsRune(s, 0):
		d.fault(n, path, "holds a zero character", "remove it")
	case len(f.enum) > 0 && !slices.Contains(f.enum, s):
		d.fault(n, path, quote(s)+" is none of "+strings.Join(f.enum, ", "), didYouMean(s, f.enum))
	case f.pattern != "" && !regexp.MustCompile(f.pattern).MatchString(s):
		d.fault(n, path, quote(s)+" is no name", "start with a lower-case letter or a digit and use only those, '-', '_' and '.', at most 63")
	}
}

func (d *decoder) checkRange(n ast.Node, number float64, path string, f *field) {
	if f == nil {
		return
	}
	if least, err := strconv.ParseFloat(f.min, 64); err == nil && number < least {
		d.fault(n, path, n.GetToken().Value+" is less than "+f.min, "write "+f.min+" or more")
	}
	if most, err := strconv.ParseFloat(f.max, 64); err == nil && number > most {
		d.fault(n, path, n.GetToken().Value+" is more than "+f.max, "write "+f.max+" or less")
	}
}

// kindOf names what a node is, for "is a list, want a text".
func kindOf(n ast.Node) string {
	switch n.Type() {
	case ast.StringType, ast.LiteralType:
		return "a text"
	case ast.IntegerType, ast.FloatType, ast.InfinityType, ast.NanType:
		return "a number"
	case ast.BoolType:
		return "true or false"
	case ast.NullType:
		return "empty"
	case ast.SequenceType:
		return "a list"
	case ast.MappingType, ast.MappingValueType:
		return "a map"
	}
	return "something else"
}
