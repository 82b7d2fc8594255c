package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/answers"
	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/sources"
	"github.com/stillhouse-data/stillhouse/internal/wire"
	"github.com/stillhouse-data/stillhouse/teachers"
)

// formatRecorded is the raw form of a recorded answer: recordedAnswer as JSON.
const formatRecorded = "recorded"

// A recordedAnswer is what a recorded teacher's row says.
type recordedAnswer struct {
	Content          *string         `json:"content"`
	Reasoning        *string         `json:"reasoning,omitempty"`
	ToolCalls        []chat.ToolCall `json:"tool_calls,omitempty"`
	Finish           string          `json:"finish"`
	Model            string          `json:"model,omitempty"`
	CompletionTokens *int64          `json:"completion_tokens,omitempty"`
	// Before are the turns of a trajectory before the answer itself.
	Before []chat.Message `json:"before,omitempty"`
	// Untrained: the training loss does not see the answer itself.
	Untrained bool `json:"untrained,omitempty"`
}

// ImportRecorded brings a recorded teacher's answers into the answer store,
// where asking finds them like any other. Rows that hold no answer are counted.
func (a *Activities) ImportRecorded(ctx context.Context, in wire.ImportInput) (*wire.ImportOutput, error) {
	w := &importWork{a: a}
	defer heartbeat(ctx, beatEvery, func() any { return w.rows.Load() })()
	out, err := w.run(ctx, in)
	return out, final(err)
}

type importWork struct {
	a       *Activities
	teacher *teacher
	rows    atomic.Int64
	bad     int64
	samples int
	// perAsked counts the samples so far by what recordings are found by; only
	// where several are asked.
	perAsked map[answers.Key]int32
}

func (w *importWork) run(ctx context.Context, in wire.ImportInput) (*wire.ImportOutput, error) {
	rt, err := w.a.runtime(ctx, in.BuildRef)
	if err != nil {
		return nil, err
	}
	w.teacher = rt.teachers[in.Teacher]
	w.samples = rt.recipe.Ask.Samples.Max
	w.perAsked = map[answers.Key]int32{}
	mapper, err := sources.NewAnswerMapper(w.teacher.spec)
	if err != nil {
		return nil, invalidRecipe("teacher %s: %v", in.Teacher, err)
	}
	files, err := w.a.openSources(ctx, rt.sources.Recorded[in.Teacher])
	if err != nil {
		return nil, err
	}
	added, err := w.a.Answers.Import(ctx, w.teacher.endpoint, w.records(ctx, files, mapper))
	if err != nil {
		return nil, fmt.Errorf("import the answers of teacher %s: %w", in.Teacher, err)
	}
	return &wire.ImportOutput{Rows: w.rows.Load(), Added: int64(added), BadRows: w.bad}, nil
}

func (w *importWork) records(ctx context.Context, files []sources.File, mapper *sources.AnswerMapper) iter.Seq2[*answers.Record, error] {
	return func(yield func(*answers.Record, error) bool) {
		for _, f := range files {
			for row, err := range sources.Rows(ctx, f, ReadOptions()) {
				w.rows.Add(1)
				var list []sources.Recording
				if err == nil {
					list, err = mapper.Answers(row)
				}
				var rowError *sources.RowError
				if errors.As(err, &rowError) {
					w.bad++
					continue
				}
				var fileError *sources.FileError
				if errors.As(err, &fileError) {
					err = badSource("teacher %s: %v", w.teacher.spec.ID, err)
				}
				if err != nil {
					yield(nil, err)
					return
				}
				for i := range list {
					for j := range list[i].Answers {
						rec, err := w.record(&list[i].Prompt, &list[i].Answers[j])
						if err != nil || rec != nil {
							if !yield(rec, err) {
								return
							}
						}
					}
				}
			}
		}
	}
}

// record is the answer store's form of a recorded answer; nil where the asks
// of this build have no place for it.
func (w *importWork) record(prompt *chat.Prompt, r *sources.RecordedAnswer) (*answers.Record, error) {
	ask := recordedAsk(w.teacher.endpoint, prompt, 0)
	if w.samples > 1 {
		n := w.perAsked[ask.Key]
		if int(n) >= w.samples {
			return nil, nil
		}
		w.perAsked[ask.Key]++
		if n > 0 {
			ask = recordedAsk(w.teacher.endpoint, prompt, int(n))
		}
	}
	raw, err := json.Marshal(recordedAnswer{r.Content, r.Reasoning, r.ToolCalls, r.Finish, r.Model, r.CompletionTokens, r.Before, !r.Train})
	if err != nil {
		return nil, err
	}
	return &answers.Record{
		Ask: ask, Teacher: w.teacher.spec.ID, Model: w.teacher.spec.Model,
		Complete: true, Finish: r.Finish, Format: formatRecorded, Raw: raw, Started: time.Unix(0, 0).UTC(), Attempts: 1,
	}, nil
}

// parse reads a record's raw answer with today's parser.
func parse(rec *answers.Record) (*teachers.Answer, error) {
	if rec.Purged() {
		return nil, errPurged
	}
	if rec.Format != formatRecorded {
		return teachers.Parse(rec.Format, rec.Raw)
	}
	var r recordedAnswer
	if err := json.Unmarshal(rec.Raw, &r); err != nil {
		return nil, fmt.Errorf("recorded answer: %w", err)
	}
	answer := &teachers.Answer{
		Before:  r.Before,
		Message: chat.Message{Role: chat.RoleAssistant, Content: r.Content, ReasoningContent: r.Reasoning, ToolCalls: r.ToolCalls, Train: !r.Untrained},
		Finish:  r.Finish, Model: r.Model,
	}
	answer.ArgsValid = argsValid(answer)
	if r.Reasoning != nil {
		answer.ReasoningField = formatRecorded
	}
	if r.CompletionTokens != nil {
		answer.Usage = &chat.Usage{CompletionTokens: *r.CompletionTokens}
	}
	return answer, nil
}

// usageOf is the answer's usage, or an estimate where the endpoint sent none.
func usageOf(answer *teachers.Answer, headers map[string]string, prompt *chat.Prompt) chat.Usage {
	return teachers.FillUsage(answer, headers, func() int64 { return promptTokens(prompt) })
}
