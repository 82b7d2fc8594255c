// Package chat holds what teachers and datasets both speak: messages, tool
// calls, prompts and usage. It imports nothing of this module.
//
// A [Prompt] is what a teacher is asked. Its [Prompt.ID] is derived from the
// RFC 8785 (JCS) form of exactly what the teacher sees, so that gold answers,
// labels and metadata can be corrected without moving a row or buying an answer.
package chat

import (
	"crypto/sha256"
	"encoding/hex"
)

// Roles of a message.
const (
	RoleSystem    = "system"
	RoleUser      = "user"
	RoleAssistant = "assistant"
	RoleTool      = "tool"
)

// A Message is one turn of a conversation. A nil pointer is JSON null or an
// absent key; an empty string is an empty string: trainers tell them apart.
type Message struct {
	Role             string  `json:"role" parquet:"role,dict"`
	Content          *string `json:"content" parquet:"content,optional"`
	ReasoningContent *string `json:"reasoning_content,omitempty" parquet:"reasoning_content,optional"`
	ReasoningKind    *string `json:"reasoning_kind,omitempty" parquet:"reasoning_kind,optional,dict"`
	// ReasoningSignature is the vendor's proof that the reasoning is its own,
	// without which it takes none back in a later request. It is in no table
	// and in no prompt's id.
	ReasoningSignature *string    `json:"reasoning_signature,omitempty" parquet:"-"`
	ToolCalls          []ToolCall `json:"tool_calls,omitempty" parquet:"tool_calls,list"`
	ToolCallID         *string    `json:"tool_call_id,omitempty" parquet:"tool_call_id,optional"`
	Name               *string    `json:"name,omitempty" parquet:"name,optional"`
	// Train tells whether the training loss sees this message.
	Train bool `json:"train" parquet:"train"`
}

// A ToolCall is a call that an assistant message makes. Arguments is the raw
// JSON text as the model wrote it, valid or not.
type ToolCall struct {
	ID        string `json:"id" parquet:"id"`
	Type      string `json:"type" parquet:"type,dict"`
	Name      string `json:"name" parquet:"name"`
	Arguments string `json:"arguments" parquet:"arguments"`
}

// An Image is named by the SHA-256 of its bytes; where the bytes are is not
// part of a prompt's identity.
type Image struct {
	Digest    string `json:"digest"`     // hex SHA-256 of the bytes
	MediaType string `json:"media_type"` // such as image/png
	Key       string `json:"key"`        // where the bytes are in the store
}

// A Prompt is what a teacher is asked: the messages before its answer, with
// the system text, the tool declarations and the images.
type Prompt struct {
	System   string    `json:"system,omitempty"`
	Messages []Message `json:"messages"`
	Tools    string    `json:"tools,omitempty"` // JSON text, an array of tool declarations
	Images   []Image   `json:"images,omitempty"`
}

// ID is the hex of the first 16 bytes of SHA-256 over the prompt's canonical
// JSON (32 characters).
func (p *Prompt) ID() (string, error) {
	b, err := p.AppendCanonical(nil)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16]), nil
}

// All returns the messages as they are sent: the system text, if any, first.
func (p *Prompt) All() []Message {
	if p.System == "" {
		return p.Messages
	}
	out := make([]Message, 0, len(p.Messages)+1)
	out = append(out, Message{Role: RoleSystem, Content: Text(p.System)})
	return append(out, p.Messages...)
}

// LastUser is the text of the last user message, or "".
func (p *Prompt) LastUser() string {
	for i := len(p.Messages) - 1; i >= 0; i-- {
		if m := p.Messages[i]; m.Role == RoleUser && m.Content != nil {
			return *m.Content
		}
	}
	return ""
}

// Text returns a pointer to s, for a message's optional fields.
func Text(s string) *string { return &s }

// Usage counts the tokens of one answer. Cached and Reasoning are parts of
// Prompt and Completion, never additions to them, whatever the wire said.
type Usage struct {
	PromptTokens     int64 `json:"prompt_tokens"`
	CachedTokens     int64 `json:"cached_tokens"`      // of PromptTokens, read from a cache
	CacheWriteTokens int64 `json:"cache_write_tokens"` // of PromptTokens, written to a cache
	CompletionTokens int64 `json:"completion_tokens"`  // reasoning included
	ReasoningTokens  int64 `json:"reasoning_tokens"`   // of CompletionTokens
	// Estimated marks counts that we worked out from bytes because the
	// endpoint sent none.
	Estimated bool `json:"estimated,omitempty"`
}
