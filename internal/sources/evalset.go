package sources

import (
	"context"
	"fmt"
	"iter"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
)

// questionFields are where an evaluation set's question is looked for when the
// recipe names no field, in this order.
var questionFields = []string{"prompt", "messages", "question", "instruction", "problem", "query", "input", "text"}

// An EvalItem is a row of an evaluation set.
type EvalItem struct {
	Where    string // such as test.jsonl:419
	Question string // of a conversation, what its users say
	Answer   string // "" where the recipe asks for none, or the row has none
}

// EvalItems reads the items of a file of an evaluation set. The first row that
// holds no question ends it with a *[RowError]: what is not read would be taken
// for clean.
func EvalItems(ctx context.Context, f File, fields recipe.EvalFields, o Options) iter.Seq2[EvalItem, error] {
	return func(yield func(EvalItem, error) bool) {
		question, answer := newFieldPath(fields.Question), newFieldPath(fields.Answer)
		for row, err := range Rows(ctx, f, o) {
			item := EvalItem{Where: row.Where}
			if err == nil {
				if item.Question, err = questionOf(question, row.Values); err == nil {
					item.Answer, err = answerOf(answer, row.Values)
				}
				if err != nil {
					err = &RowError{Where: row.Where, Reason: err.Error()}
				}
			}
			if !yield(item, err) || err != nil {
				return
			}
		}
	}
}

func questionOf(f fieldPath, values map[string]any) (string, error) {
	if f.name != "" {
		v, ok := f.find(values)
		if !ok {
			return "", f.missing(values)
		}
		return questionText(f.name, v)
	}
	for _, name := range questionFields {
		if v := values[name]; v != nil {
			return questionText(name, v)
		}
	}
	return "", fmt.Errorf("has none of the fields %s; name the question's: fields: {question: …}; its fields are %s",
		strings.Join(questionFields, ", "), columns(values))
}

// questionText is a text as it is, and of a conversation what its users say.
func questionText(name string, v any) (string, error) {
	if s, ok := scalarText(v); ok && name != "messages" {
		return s, nil
	}
	_, messages, _, err := conversation(v)
	if err != nil {
		return "", fmt.Errorf("field %s is neither a text nor a conversation: %w", name, err)
	}
	var texts []string
	for i := range messages {
		if m := &messages[i]; m.Role == chat.RoleUser && m.Content != nil {
			texts = append(texts, *m.Content)
		}
	}
	return strings.Join(texts, "\n"), nil
}

// answerOf is the answer: a text, or whatever else the row holds as JSON.
func answerOf(f fieldPath, values map[string]any) (string, error) {
	v, ok := f.find(values)
	if !ok {
		return "", nil
	}
	return jsonText(v), nil
}

// EvalSetName is what a file of an evaluation set is called: its path from the
// last folder that the pattern names, the same on every machine that reads the
// recipe.
func EvalSetName(dir, pattern string, f File) string {
	if f.Path == "" {
		parts := strings.Split(strings.TrimPrefix(f.Key, "s3://"), "/")
		return strings.Join(parts[max(min(1, len(parts)-1), len(parts)-2):], "/")
	}
	named := path.Clean(filepath.ToSlash(pattern))
	full := filepath.FromSlash(named)
	if !filepath.IsAbs(full) {
		full = filepath.Join(dir, full)
	}
	parts := strings.Split(named, "/")
	if sameFile := full == f.Path; sameFile {
		parts = parts[:len(parts)-1]
	} else if i := slices.IndexFunc(parts, hasMeta); i >= 0 {
		parts = parts[:i]
	}
	folder := strings.Join(parts, "/")
	if strings.HasPrefix(named, "/") && folder == "" {
		folder = "/"
	}
	base := filepath.FromSlash(folder)
	if !filepath.IsAbs(base) {
		base = filepath.Join(dir, base)
	}
	rel, err := filepath.Rel(base, f.Path)
	if err != nil || strings.HasPrefix(rel, "..") {
		return f.Name
	}
	name := filepath.ToSlash(rel)
	if last := path.Base(folder); folder != "" && last != "." && last != ".." && last != "/" {
		name = last + "/" + name
	}
	return name
}
