package report

import (
	"bytes"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// validate holds a document to a JSON Schema.
func validate(t *testing.T, schema, doc []byte) {
	t.Helper()
	s, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		t.Fatal(err)
	}
	d, err := jsonschema.UnmarshalJSON(bytes.NewReader(doc))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("report.schema.json", s); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("report.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := compiled.Validate(d); err != nil {
		t.Error(err)
	}
}
