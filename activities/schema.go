package activities

import (
	"encoding/json"

	"github.com/invopop/jsonschema"
)

// ResultSchema is the JSON Schema of what `build --json` ends with, generated
// from [BuildResult]. Within v1 it only grows, by optional fields.
func ResultSchema() ([]byte, error) {
	r := jsonschema.Reflector{AllowAdditionalProperties: true}
	s := r.Reflect(&BuildResult{})
	s.ID = "https://stillhouse-data.github.io/schema/build-result.schema.json"
	s.Title = "Result of a build"
	s.Description = "The object that `stillhouse build --json` prints last. Counts are of this build's tasks; costs are at the recipe's prices."
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(b, '\n'), nil
}
