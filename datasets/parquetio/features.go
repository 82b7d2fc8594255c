package parquetio

import (
	"encoding/json"

	"github.com/parquet-go/parquet-go"
)

// A Feature of the Hugging Face datasets library's declaration of columns. A
// list is written as a JSON array of one feature, which releases before and
// after 4.0 both read.
type feature any

// Features is the declaration of T's columns as the datasets library reads it
// from a footer or a dataset card: a JSON object, column to feature.
func Features[T any]() map[string]any {
	features := map[string]any{}
	for _, f := range schemaOf[T]().Fields() {
		features[f.Name()] = featureOf(f)
	}
	return features
}

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
