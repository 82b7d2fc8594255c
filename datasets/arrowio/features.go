package arrowio

import (
	"encoding/json"

	"github.com/apache/arrow/go/v17/arrow"
)

// featuresKey is where Hugging Face datasets looks for the declaration of a
// table's columns, so that it shows them as they were declared.
const featuresKey = "huggingface"

func (l *layout) features() string {
	features := map[string]any{}
	for _, f := range l.fields {
		features[f.name] = feature(f.typ)
	}
	text, err := json.Marshal(map[string]any{"info": map[string]any{"features": features}})
	if err != nil {
		panic(err) // maps of strings always have a JSON
	}
	return string(text)
}

// feature declares one column. A list is an array of one feature, which
// releases before and after 4.0 both read.
func feature(t arrow.DataType) any {
	switch t := t.(type) {
	case *arrow.ListType:
		return []any{feature(t.Elem())}
	case *arrow.StructType:
		fields := map[string]any{}
		for _, f := range t.Fields() {
			fields[f.Name] = feature(f.Type)
		}
		return fields
	}
	return map[string]any{"_type": "Value", "dtype": dtype(t)}
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
