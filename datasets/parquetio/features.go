package parquetio

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"
)

// A feature is a column in the Hugging Face datasets library's declaration. A
// list is written as a JSON array of one feature, which its releases before
// and after 4.0 both read.
type feature any

// FeaturesYAML is the declaration of T's columns as a dataset card has it under
// dataset_info.features: YAML list items, each line indented by indent.
func FeaturesYAML[T any](indent string) string {
	return featuresYAML[T](indent, false)
}

// LinesFeaturesYAML is FeaturesYAML for rows in JSON Lines, where a column of a
// feature that stands for several values, such as an image, is a string.
func LinesFeaturesYAML[T any](indent string) string {
	return featuresYAML[T](indent, true)
}

func featuresYAML[T any](indent string, lines bool) string {
	var b strings.Builder
	for _, f := range schemaOf[T]().Fields() {
		featureYAML(&b, indent, f.Name(), f, fieldType(reflect.TypeFor[T](), f.Name()), lines)
	}
	return b.String()
}

func featureYAML(b *strings.Builder, indent, name string, n parquet.Node, t reflect.Type, lines bool) {
	fmt.Fprintf(b, "%s- name: %s\n", indent, name)
	key := "struct"
	if element, ok := listElement(n); ok {
		n, key, t = element, "list", elementType(t)
	}
	if own := ownFeature(t); own != "" {
		own = strings.ToLower(own)
		if lines && !n.Leaf() {
			own = "string"
		}
		if key == "struct" {
			key = "dtype"
		}
		fmt.Fprintf(b, "%s  %s: %s\n", indent, key, own)
		return
	}
	if inner, ok := listElement(n); ok && key == "list" { // a list of lists
		if inner.Leaf() {
			fmt.Fprintf(b, "%s  list:\n%s    list: %s\n", indent, indent, dtype(inner.Type()))
			return
		}
	}
	switch {
	case n.Leaf() && key == "list":
		fmt.Fprintf(b, "%s  list: %s\n", indent, dtype(n.Type()))
	case n.Leaf():
		fmt.Fprintf(b, "%s  dtype: %s\n", indent, dtype(n.Type()))
	default:
		fmt.Fprintf(b, "%s  %s:\n", indent, key)
		for _, f := range n.Fields() {
			featureYAML(b, indent+"  ", f.Name(), f, fieldType(t, f.Name()), lines)
		}
	}
}

// A column type may have a feature of its own that the library is told of, such
// as Json or Image.
type featured interface{ HuggingFaceFeature() string }

// ownFeature is the feature of its own that a Go type has, or "".
func ownFeature(t reflect.Type) string {
	if t == nil {
		return ""
	}
	if f, ok := reflect.Zero(t).Interface().(featured); ok {
		return f.HuggingFaceFeature()
	}
	return ""
}

// fieldType is the Go type of a column of t, less its pointer; nil where t is
// no struct.
func fieldType(t reflect.Type, column string) reflect.Type {
	if t == nil || t.Kind() != reflect.Struct {
		return nil
	}
	fields := reflect.VisibleFields(t)
	at := slices.IndexFunc(fields, func(f reflect.StructField) bool {
		name, _, _ := strings.Cut(f.Tag.Get("parquet"), ",")
		return !f.Anonymous && name == column
	})
	if at < 0 {
		return nil
	}
	if t = fields[at].Type; t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

func elementType(t reflect.Type) reflect.Type {
	if t == nil || t.Kind() != reflect.Slice {
		return nil
	}
	if t = t.Elem(); t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// featuresKey is the declaration for the footer: the library then shows the
// columns as they were declared, whatever the rows hold.
func featuresKey(schema *parquet.Schema, t reflect.Type) (string, error) {
	features := map[string]feature{}
	for _, f := range schema.Fields() {
		features[f.Name()] = featureOf(f, fieldType(t, f.Name()))
	}
	b, err := json.Marshal(map[string]any{"info": map[string]any{"features": features}})
	return string(b), err
}

func featureOf(n parquet.Node, t reflect.Type) feature {
	if own := ownFeature(t); own != "" {
		return map[string]any{"_type": own}
	}
	if n.Leaf() {
		return map[string]any{"_type": "Value", "dtype": dtype(n.Type())}
	}
	if element, ok := listElement(n); ok {
		return []any{featureOf(element, elementType(t))}
	}
	fields := map[string]any{}
	for _, f := range n.Fields() {
		fields[f.Name()] = featureOf(f, fieldType(t, f.Name()))
	}
	return fields
}

// dtype is Arrow's name of a leaf's type, as pyarrow reads it.
func dtype(t parquet.Type) string {
	switch name := leafType(t); name {
	case "float":
		return "float32"
	case "double":
		return "float64"
	case "bytes":
		return "binary"
	default:
		return name
	}
}
