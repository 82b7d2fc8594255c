package report

import (
	"encoding/json"
	"io"

	"github.com/invopop/jsonschema"
)

// Schema is the JSON Schema of report.json, generated from [Report]. Fields may
// be added to it within a format version; none is removed and none changes its
// meaning.
func Schema() ([]byte, error) {
	r := jsonschema.Reflector{AllowAdditionalProperties: true}
	s := r.Reflect(&Report{})
	s.ID = "https://stillhouse-data.github.io/schema/report.schema.json"
	s.Title = "Teacher comparison"
	s.Description = "How often each teacher is right, what it costs and how it answers, with uncertainty."
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(b, '\n'), nil
}

// JSON writes the comparison as report.json.
func (r *Report) JSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}
