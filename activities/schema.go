package activities

import (
	"encoding/json"

	"github.com/invopop/jsonschema"
)

// ResultSchema is the JSON Schema of what `build --json` ends with, generated
// from [BuildResult]. Within v1 it only grows, by optional fields.
func ResultSchema() ([]byte, error) {
	return schemaOf(&BuildResult{}, "build-result", "Result of a build",
		"The object that `stillhouse build --json` prints last. Counts are of this build's tasks; costs are at the recipe's prices.")
}

// ReparseSchema is that of what `reparse --json` prints, [ReparseResult].
func ReparseSchema() ([]byte, error) {
	return schemaOf(&ReparseResult{}, "reparse-result", "Result of reparse",
		"The object that `stillhouse reparse --json` prints.")
}

// PurgeSchema is that of what `purge --json` prints, [PurgeResult].
func PurgeSchema() ([]byte, error) {
	return schemaOf(&PurgeResult{}, "purge-result", "Result of purge",
		"The object that `stillhouse purge --json` prints: what would go, and with --yes what went. It holds names, numbers, keys and digests, never a word of what was erased.")
}

// NoticeSchema is that of what webhooks and commands are told, [Notice].
func NoticeSchema() ([]byte, error) {
	return schemaOf(&Notice{}, "notice", "Notice of a build's end",
		"What the recipe's notify entries are sent. It holds names, numbers and keys, never a prompt or an answer.")
}

func schemaOf(v any, name, title, description string) ([]byte, error) {
	r := jsonschema.Reflector{AllowAdditionalProperties: true}
	s := r.Reflect(v)
	s.ID = jsonschema.ID("https://stillhouse-data.github.io/schema/" + name + ".schema.json")
	s.Title = title
	s.Description = description
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(b, '\n'), nil
}
