package sources

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// trajectoryStarts tells where the answer in a conversation may begin that ends
// with the assistant's turn, in the order of the row. A row doesn't say where
// its prompt ends, and the task that asks for it does: so the answer is kept for
// each prompt that a task is likely to have, up to three of them:
//
//   - what comes before the assistant's first turn: the rest is a whole
//     trajectory, in which a user may have spoken again;
//   - what comes before its first turn after the last of the user's: the rest
//     is its own work, calls and their results;
//   - everything but the last turn.
//
// In a conversation without tools they are the same, or the prompt is a history.
func trajectoryStarts(messages []chat.Message) []int {
	last := len(messages) - 1
	first, after := -1, 0
	for i := range messages {
		switch messages[i].Role {
		case chat.RoleAssistant:
			if first < 0 {
				first = i
			}
		case chat.RoleUser:
			after = i + 1
		}
	}
	for after < last && messages[after].Role != chat.RoleAssistant {
		after++
	}
	starts := []int{first, after, last}
	slices.Sort(starts)
	return slices.Compact(starts)
}

// markTrained says of each turn of a trajectory whether the training loss sees
// it: what the row says, else the assistant's turns and no others.
func markTrained(messages []chat.Message, fields []map[string]any) error {
	for i := range messages {
		said, err := trainFlag(fields[i])
		if err != nil {
			return fmt.Errorf("turn %d: %w", i+1, err)
		}
		messages[i].Train = messages[i].Role == chat.RoleAssistant
		if said != nil {
			messages[i].Train = *said
		}
	}
	return nil
}

// trainFlag is what a message says of itself: train, or weight as OpenAI's
// fine-tuning files have it.
func trainFlag(fields map[string]any) (*bool, error) {
	var out *bool
	switch v := fields["weight"].(type) {
	case nil:
	case json.Number:
		if v != "0" && v != "1" {
			return nil, fmt.Errorf("weight is %s, want 0 or 1", clip(string(v)))
		}
		out = new(v == "1")
	default:
		return nil, fmt.Errorf("weight is %s, want 0 or 1", kindOf(v))
	}
	switch v := fields["train"].(type) {
	case nil:
	case bool:
		out = &v
	default:
		return nil, fmt.Errorf("train is %s, want true or false", kindOf(v))
	}
	return out, nil
}
