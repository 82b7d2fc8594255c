package parquetio

import (
	"encoding/json"
	"fmt"
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
	var b strings.Builder
	for _, f := range schemaOf[T]().Fields() {
		featureYAML(&b, indent, f.Name(), f)
	}
	return b.String()
}

func featureYAML(b *strings.Builder, indent, name string, n parquet.Node) {
	fmt.Fprintf(b, "%s- name: %s\n", indent, name)
	key := "struct"
	if element, ok := listElement(n); ok {
		n, key = element, "list"
	}
	switch {
	case n.Leaf() && key == "list":
		fmt.Fprintf(b, "%s  list: %s\n", indent, dtype(n.Type()))
	case n.Leaf():
		fmt.Fprintf(b, "%s  dtype: %s\n", indent, dtype(n.Type()))
	default:
		fmt.Fprintf(b, "%s  %s:\n", indent, key)
		for _, f := range n.Fields() {
			featureYAML(b, indent+"  ", f.Name(), f)
		}
	}
}

// featuresKey is the declaration for the footer: the library then shows the
// columns as they were declared, whatever the rows hold.
func featuresKey(schema *parquet.Schema) (string, error) {
	features := map[string]feature{}
	for _, f := range schema.Fields() {
		features[f.Name()] = featureOf(f)
	}
	b, err := json.Marshal(map[string]any{"info": map[string]any{"features": features}})
	return string(b), err
}

func featureOf(n parquet.Node) feature {
	if n.Leaf() {
		return map[string]any{"_type": "Value", "dtype": dtype(n.Type())}
	}
	if element, ok := listElement(n); ok {
		return []any{featureOf(element)}
	}
	fields := map[string]any{}
	for _, f := range n.Fields() {
		fields[f.Name()] = featureOf(f)
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
