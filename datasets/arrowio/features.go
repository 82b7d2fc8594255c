package arrowio

import (
	"encoding/json"
	"reflect"

	"github.com/apache/arrow/go/v17/arrow"
)

// featuresKey is where Hugging Face datasets looks for the declaration of a
// table's columns, so that it shows them as they were declared.
const featuresKey = "huggingface"

func (l *layout) features() string {
	text, err := json.Marshal(map[string]any{"info": map[string]any{"features": declared(l.fields)}})
	if err != nil {
		panic(err) // maps of strings always have a JSON
	}
	return string(text)
}

func declared(fields []field) map[string]any {
	out := map[string]any{}
	for _, f := range fields {
		out[f.name] = f.declared()
	}
	return out
}

// declared is a column's feature. A list is an array of one feature, which the
// library's releases before and after 4.0 both read.
func (c *codec) declared() any {
	if c.feature != nil {
		return c.feature
	}
	return map[string]any{"_type": "Value", "dtype": dtype(c.typ)}
}

// jsonExtension is Arrow's canonical extension type of JSON text (Arrow
// columnar format, canonical extension types): to readers that know it the
// column is JSON, to others it is the text.
const jsonExtension = "arrow.json"

// extension says in a field's metadata that it is JSON. Datasets takes the
// feature Json from there alone.
func (c *codec) extension() arrow.Metadata {
	if f, ok := c.feature.(map[string]any); !ok || f["_type"] != "Json" {
		return arrow.Metadata{}
	}
	return arrow.NewMetadata([]string{"ARROW:extension:name", "ARROW:extension:metadata"}, []string{jsonExtension, ""})
}

// ownFeature is the feature of its own that a Go type has, such as Json or
// Image, as parquetio asks for it; nil for none.
func ownFeature(t reflect.Type) any {
	if t == nil || t.Kind() == reflect.Pointer {
		return nil
	}
	if f, ok := reflect.Zero(t).Interface().(interface{ HuggingFaceFeature() string }); ok {
		return map[string]any{"_type": f.HuggingFaceFeature()}
	}
	return nil
}

// dtype is the library's name of a type.
func dtype(t arrow.DataType) string {
	switch t.ID() {
	case arrow.STRING:
		return "string"
	case arrow.BINARY:
		return "binary"
	case arrow.TIMESTAMP:
		return "timestamp[us, tz=UTC]"
	}
	return t.Name() // bool, and numbers such as int64 and float32
}
