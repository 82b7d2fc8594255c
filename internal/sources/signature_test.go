package sources

import "testing"

// A vendor's signature of an earlier turn's reasoning comes with the turn.
func TestSignatureOfReasoning(t *testing.T) {
	m, err := message(map[string]any{"role": "assistant", "content": "four", "reasoning_content": "two and two", "reasoning_signature": "c2ln"})
	if err != nil || m.ReasoningSignature == nil || *m.ReasoningSignature != "c2ln" {
		t.Errorf("signature %v, %v", m.ReasoningSignature, err)
	}
	if _, err := message(map[string]any{"role": "assistant", "content": "four", "reasoning_signature": 1}); err == nil {
		t.Error("a number passes for a signature")
	}
}
