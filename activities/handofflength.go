package activities

import (
	"context"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/training"
)

// charactersPerToken is what tells whether a row is likely too long. Three are
// few for English and many for Chinese, so that the estimate errs to the side of
// saying so.
const charactersPerToken = 3

// measure says of a view how long the rows of the version's train split are and
// of what they are. It counts characters: the student's tokenizer is not ours to
// run.
func (a *Activities) measure(ctx context.Context, m *catalog.Manifest, view *training.View, maxLength int) error {
	var characters, tokens []int64
	out := &training.Lengths{Measure: "characters"}
	of := &training.Shares{Domains: map[string]int64{}, Efforts: map[string]int64{}, Teachers: map[string]int64{}}
	for row, err := range catalog.ReadTable[datasets.Row](ctx, a.Catalog, m, datasets.TableTrain) {
		if err != nil {
			return err
		}
		of.Domains[row.Domain]++
		of.Efforts[row.Effort]++
		of.Teachers[row.Teacher]++
		if slices.ContainsFunc(row.Messages, func(m chat.Message) bool { return m.Train != (m.Role == chat.RoleAssistant) }) {
			of.Partly++
		}
		n := charactersOf(&row)
		characters = append(characters, n)
		if row.CompletionTokens != nil {
			tokens = append(tokens, *row.CompletionTokens)
		}
		if maxLength > 0 && n > int64(maxLength)*charactersPerToken {
			out.Over++
		}
	}
	if len(characters) == 0 {
		return nil
	}
	if maxLength > 0 {
		out.OverBy = fmt.Sprintf("an estimate: more than %d characters, %d for each of %d tokens", maxLength*charactersPerToken, charactersPerToken, maxLength)
	}
	out.Characters = spreadOf(characters)
	if len(tokens) > 0 {
		s := spreadOf(tokens)
		out.Answers = &s
	}
	view.Lengths, view.Shares = out, of
	return nil
}

func charactersOf(row *datasets.Row) (n int64) {
	count := func(s *string) {
		if s != nil {
			n += int64(utf8.RuneCountInString(*s))
		}
	}
	count(row.Tools)
	for i := range row.Messages {
		m := &row.Messages[i]
		count(m.Content)
		count(m.ReasoningContent)
		for j := range m.ToolCalls {
			count(&m.ToolCalls[j].Name)
			count(&m.ToolCalls[j].Arguments)
		}
	}
	return n
}

// spreadOf takes percentiles by the nearest rank. It sorts what it is given.
func spreadOf(of []int64) training.Spread {
	slices.Sort(of)
	n := len(of)
	at := func(percent int) int64 { return of[max(0, (n*percent+99)/100-1)] }
	return training.Spread{Rows: int64(n), P50: at(50), P95: at(95), P99: at(99), Max: of[n-1]}
}
