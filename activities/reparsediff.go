package activities

import (
	"slices"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// Fields of an answer that a parser may read differently.
const (
	fieldContent   = "content"
	fieldReasoning = "reasoning"
	fieldToolCalls = "tool_calls"
	fieldFinish    = "finish"
	fieldUsage     = "usage"
	fieldModel     = "model"
	fieldFlags     = "flags"
	fieldError     = "error"
)

// differences lists the fields in which two readings of one answer differ.
func differences(old, c *datasets.Candidate) []string {
	var out []string
	note := func(field string, same bool) {
		if !same {
			out = append(out, field)
		}
	}
	a, b := old.Answer(), c.Answer()
	if a == nil {
		a = &chat.Message{}
	}
	if b == nil {
		b = &chat.Message{}
	}
	note(fieldContent, same(a.Content, b.Content))
	note(fieldReasoning, same(a.ReasoningContent, b.ReasoningContent) && same(a.ReasoningKind, b.ReasoningKind) && same(old.ReasoningField, c.ReasoningField))
	note(fieldToolCalls, slices.Equal(a.ToolCalls, b.ToolCalls) && same(old.ArgsValid, c.ArgsValid))
	note(fieldFinish, same(old.FinishReason, c.FinishReason))
	note(fieldUsage, sameUsage(old, c))
	note(fieldModel, same(old.ModelAnswered, c.ModelAnswered))
	note(fieldFlags, slices.Equal(old.Flags, c.Flags))
	note(fieldError, same(old.Error, c.Error))
	return out
}

// sameUsage compares counts. A version that was made before a kind of count was
// read from its answers has nulls for it.
func sameUsage(old, c *datasets.Candidate) bool {
	return same(old.PromptTokens, c.PromptTokens) && same(old.CachedTokens, c.CachedTokens) &&
		same(old.CacheWriteTokens, c.CacheWriteTokens) && same(old.CompletionTokens, c.CompletionTokens) &&
		same(old.ReasoningTokens, c.ReasoningTokens) && old.UsageEstimated == c.UsageEstimated
}

// same tells whether two optional values are equal.
func same[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}
