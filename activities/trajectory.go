package activities

import (
	"encoding/json"

	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/teachers"
)

// argsValid tells whether all tool arguments of a recorded answer are JSON,
// those of its earlier turns included; nil where it calls no tool.
func argsValid(answer *teachers.Answer) *bool {
	var out *bool
	look := func(m *chat.Message) {
		for i := range m.ToolCalls {
			valid := json.Valid([]byte(m.ToolCalls[i].Arguments)) && (out == nil || *out)
			out = &valid
		}
	}
	for i := range answer.Before {
		look(&answer.Before[i])
	}
	look(&answer.Message)
	return out
}
