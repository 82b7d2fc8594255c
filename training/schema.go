package training

import (
	"encoding/json"
	"fmt"

	"github.com/invopop/jsonschema"
)

// Schema is the JSON Schema of handoff.json, from the declaration of [Bundle].
func Schema() ([]byte, error) { return schemaOf(&Bundle{}, "Stillhouse hand-off") }

// ResultSchema is the JSON Schema of result.json, from the declaration of
// [Result].
func ResultSchema() ([]byte, error) { return schemaOf(&Result{}, "Stillhouse training result") }

func schemaOf(v any, title string) ([]byte, error) {
	// A reader of v1 meets fields that later releases add.
	reflector := jsonschema.Reflector{Anonymous: true, AllowAdditionalProperties: true}
	schema := reflector.Reflect(v)
	schema.Title = title
	text, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("schema of %s: %w", title, err)
	}
	return append(text, '\n'), nil
}
