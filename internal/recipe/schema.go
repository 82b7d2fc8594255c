package recipe

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strings"
)

// The comments of the declarations are the schema's descriptions.
//
//go:embed *.go
var declarations embed.FS

// SchemaID is where the schema of a recipe says that it lives.
const SchemaID = "https://github.com/stillhouse-data/stillhouse/blob/main/docs/contract/recipe.schema.json"

// Schema returns the JSON Schema (draft 2020-12) of a recipe, for editors and
// other programs. It is generated from the structs of this package and says
// what they say; the cross-checks of Parse go beyond it.
func Schema() ([]byte, error) {
	docs, err := comments()
	if err != nil {
		return nil, fmt.Errorf("generate the recipe's schema: %w", err)
	}
	g := generator{docs: docs, defs: object{}}
	root := g.section(reflect.TypeFor[Recipe]())
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["$id"] = SchemaID
	root["title"] = "Stillhouse recipe"
	root["$defs"] = g.defs
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(root); err != nil {
		return nil, fmt.Errorf("generate the recipe's schema: %w", err)
	}
	return out.Bytes(), nil
}

type object = map[string]any

// A generator turns declared structs into schemas, each struct once.
type generator struct {
	docs map[string]string // of Type and Type.Field
	defs object
}

// section is the schema of a struct's keys.
func (g *generator) section(t reflect.Type) object {
	s := sectionOf(t)
	properties, required := object{}, []string{}
	for i := range s.fields {
		f := &s.fields[i]
		properties[f.key] = g.field(f, t)
		if f.required {
			required = append(required, f.key)
		}
	}
	out := object{"type": "object", "properties": properties, "additionalProperties": s.inline >= 0}
	if len(required) > 0 {
		out["required"] = required
	}
	if doc := g.docs[t.Name()]; doc != "" {
		out["description"] = doc
	}
	return out
}

func (g *generator) field(f *field, owner reflect.Type) object {
	out := g.value(f.typ, f)
	if ref, ok := out["$ref"]; ok {
		out = object{"$ref": ref} // a keyword beside $ref belongs to this use of it
	}
	if doc := g.docs[owner.Name()+"."+f.name]; doc != "" {
		out["description"] = doc
	}
	if f.hasDef {
		out["default"] = declaredDefault(f)
	}
	return out
}

func declaredDefault(f *field) any {
	if n := json.Number(f.def); f.typ.Kind() != reflect.String {
		if _, err := n.Int64(); err == nil {
			return n
		}
	}
	return f.def
}

// value is the schema of a type. The bounds of a field that is a list or a map
// are those of its items.
func (g *generator) value(t reflect.Type, f *field) object {
	switch t {
	case typeDuration:
		return object{"type": "string", "pattern": `^([0-9]{1,4}d)?([0-9.]+(ns|us|µs|ms|s|m|h))*$`, "minLength": 2}
	case typeByteSize:
		return object{"anyOf": []object{
			{"type": "integer", "minimum": 1},
			{"type": "string", "pattern": `^[0-9]+ ?([KMGT]i?B|B)?$`},
		}}
	case typeDate:
		return object{"type": "string", "format": "date"}
	case typeWhen:
		return object{"type": "string", "minLength": 1, "maxLength": maxWhen}
	case typeRoute:
		rules := g.list(reflect.TypeFor[RouteRule]())
		return object{"anyOf": []object{
			{"enum": []string{RouteDomain, RouteAll}},
			{"type": "object", "properties": object{"rules": rules}, "required": []string{"rules"}, "additionalProperties": false},
		}}
	case typeSamples:
		return object{"anyOf": []object{{"type": "integer", "minimum": 1, "maximum": 1024}, g.section(t)}}
	case typeProfile:
		return object{"anyOf": []object{{"enum": sectionOf(t).field("base").enum}, g.section(t)}}
	case typeStep:
		return object{"anyOf": []object{
			{"enum": filterNames},
			{
				"type": "object", "minProperties": 1, "maxProperties": 2,
				"properties":           g.steps(),
				"additionalProperties": false,
			},
		}}
	case typePromptStep:
		return object{"anyOf": []object{
			{"enum": []string{Duplicate, NearDuplicate}},
			{
				"type": "object", "minProperties": 1, "maxProperties": 2,
				"properties":           g.promptSteps(),
				"additionalProperties": false,
			},
		}}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return g.value(t.Elem(), f)
	case reflect.Struct:
		if _, ok := g.defs[t.Name()]; !ok {
			g.defs[t.Name()] = nil // ends a recursion
			g.defs[t.Name()] = g.section(t)
		}
		return object{"$ref": "#/$defs/" + t.Name()}
	case reflect.Slice:
		list := g.list(t.Elem())
		if f != nil && f.required {
			list["minItems"] = 1
		}
		if t.Elem().Kind() == reflect.String {
			return object{"anyOf": []object{{"type": "string"}, list}}
		}
		return list
	case reflect.Map:
		return object{"type": "object", "additionalProperties": g.value(t.Elem(), f)}
	case reflect.Interface:
		return object{}
	}
	return g.scalar(t, f)
}

func (g *generator) list(item reflect.Type) object {
	return object{"type": "array", "items": g.value(item, nil)}
}

// steps are the filters of the contract, each with options of its own.
func (g *generator) steps() object {
	out := object{"when": g.value(typeWhen, nil)}
	for _, name := range filterNames {
		options := g.value(filterOptions[name], nil)
		if name == "expr" {
			options = object{"anyOf": []object{g.value(typeWhen, nil), options}}
		}
		out[name] = object{"anyOf": []object{options, {"type": "null"}}}
	}
	return out
}

// promptSteps are the filters of prompts, each with options of its own.
func (g *generator) promptSteps() object {
	return object{
		"when":        g.value(typeWhen, nil),
		Duplicate:     g.value(reflect.TypeFor[DuplicateStep](), nil),
		NearDuplicate: g.value(reflect.TypeFor[NearDuplicateStep](), nil),
		Contamination: g.value(reflect.TypeFor[ContaminationStep](), nil),
	}
}

func (g *generator) scalar(t reflect.Type, f *field) object {
	out := object{"type": map[reflect.Kind]string{
		reflect.String: "string", reflect.Bool: "boolean", reflect.Int: "integer",
		reflect.Int64: "integer", reflect.Float64: "number",
	}[t.Kind()]}
	if f == nil {
		return out
	}
	if t.Kind() == reflect.String {
		out["minLength"] = 1
	}
	if f.min != "" {
		out["minimum"] = json.Number(f.min)
	}
	if f.max != "" {
		out["maximum"] = json.Number(f.max)
	}
	if f.pattern != "" {
		out["pattern"] = f.pattern
	}
	if len(f.enum) > 0 {
		out["enum"] = f.enum
		delete(out, "minLength")
	}
	return out
}

// comments reads the comments of the declared types and their fields.
func comments() (map[string]string, error) {
	out := map[string]string{}
	files, err := declarations.ReadDir(".")
	if err != nil {
		return nil, err
	}
	for _, entry := range files {
		name := entry.Name()
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		source, err := declarations.ReadFile(name)
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		for _, decl := range file.Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok || gen.Tok != token.TYPE {
				continue
			}
			for _, spec := range gen.Specs {
				typeComments(out, gen, spec.(*ast.TypeSpec))
			}
		}
	}
	return out, nil
}

func typeComments(out map[string]string, decl *ast.GenDecl, spec *ast.TypeSpec) {
	out[spec.Name.Name] = oneLine(decl.Doc.Text())
	fields, ok := spec.Type.(*ast.StructType)
	if !ok {
		return
	}
	for _, f := range fields.Fields.List {
		for _, name := range f.Names {
			out[spec.Name.Name+"."+name.Name] = oneLine(f.Doc.Text())
		}
	}
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
