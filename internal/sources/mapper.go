package sources

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"strings"

	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
)

// A Mapper makes tasks of the rows of one prompt source.
type Mapper struct {
	prompt  promptReader
	tools   fieldPath
	domain  string
	efforts []string

	domainField, effortField, gold, tests, group fieldPath

	goldPattern *regexp.Regexp
	meta        []fieldPath

	images fieldPath
	image  func(ImageRef) (chat.Image, int64, error) // nil: no images are read
}

// NewMapper prepares the mapping that a recipe declares for a source.
func NewMapper(src *recipe.PromptSource) (*Mapper, error) {
	f := &src.Fields
	prompt, err := newPromptReader(f.Prompt, f.Messages, src.Template, src.System, f.System)
	if err != nil {
		return nil, fmt.Errorf("map prompts of %s: %w", src.Path, err)
	}
	m := &Mapper{
		prompt: prompt, tools: newFieldPath(f.Tools), domain: src.Domain, efforts: src.Efforts,
		domainField: newFieldPath(f.Domain), effortField: newFieldPath(f.Effort),
		gold: newFieldPath(f.Gold), tests: newFieldPath(f.Tests), group: newFieldPath(f.Group),
		images: newFieldPath(f.Images),
	}
	if m.domain == "" {
		m.domain = recipe.DefaultName
	}
	if len(m.efforts) == 0 {
		m.efforts = []string{recipe.DefaultName}
	}
	for _, name := range f.Meta {
		m.meta = append(m.meta, newFieldPath(name))
	}
	if src.GoldPattern != "" {
		if m.goldPattern, err = regexp.Compile(src.GoldPattern); err != nil {
			return nil, fmt.Errorf("map prompts of %s: gold_pattern: %w", src.Path, err)
		}
		if m.goldPattern.NumSubexp() == 0 {
			return nil, fmt.Errorf("map prompts of %s: gold_pattern has no group; put parentheses around the answer", src.Path)
		}
	}
	return m, nil
}

// Items returns the tasks of a row: one per effort. The error is a *[RowError],
// save one of the way to an image.
func (m *Mapper) Items(row Row) ([]Item, error) {
	item, efforts, err := m.item(row.Values)
	var lost *wayError
	if errors.As(err, &lost) {
		return nil, fmt.Errorf("%s: %w", row.Where, lost.err)
	}
	if err != nil {
		return nil, &RowError{Where: row.Where, Reason: err.Error()}
	}
	item.Where = row.Where
	items := make([]Item, len(efforts))
	for i, e := range efforts {
		items[i] = item
		items[i].Effort = e
	}
	return items, nil
}

func (m *Mapper) item(values map[string]any) (item Item, efforts []string, err error) {
	if item.Prompt, err = m.prompt.read(values); err != nil {
		return item, nil, err
	}
	if err = checkQuestion(item.Prompt.Messages); err != nil {
		return item, nil, err
	}
	if endsWithAnswer(item.Prompt.Messages) {
		return item, nil, errors.New("the messages end with the assistant's turn; a prompt ends before it")
	}
	if v, ok := m.tools.find(values); ok {
		if item.Prompt.Tools, err = toolText(v); err != nil {
			return item, nil, err
		}
	}
	if item.Prompt.Images, err = m.imagesOf(values); err != nil {
		return item, nil, err
	}
	if item.Domain, err = m.label(m.domainField, m.domain, values); err != nil {
		return item, nil, err
	}
	if efforts, err = m.effortsOf(values); err != nil {
		return item, nil, err
	}
	if item.Gold, err = m.goldOf(values); err != nil {
		return item, nil, err
	}
	if v, ok := m.tests.find(values); ok {
		text := jsonText(v)
		item.Tests = &text
	}
	if item.Group, _, err = m.group.text(values); err != nil {
		return item, nil, err
	}
	item.Meta = m.metaOf(values)
	return item, efforts, nil
}

// label is the row's domain or effort.
func (m *Mapper) label(f fieldPath, constant string, values map[string]any) (string, error) {
	if f.name == "" {
		return constant, nil
	}
	s, err := f.needed(values)
	if err != nil {
		return "", err
	}
	if fault := recipe.LabelFault(s); fault != "" {
		return "", fmt.Errorf("field %s %s; use a short word such as math or high", f.name, fault)
	}
	return s, nil
}

func (m *Mapper) effortsOf(values map[string]any) ([]string, error) {
	if m.effortField.name == "" {
		return m.efforts, nil
	}
	e, err := m.label(m.effortField, "", values)
	return []string{e}, err
}

// goldOf is the gold answer. A row without one is left without; one whose text
// the pattern does not find is an error, because every answer to it would fail.
func (m *Mapper) goldOf(values map[string]any) (*string, error) {
	s, ok, err := m.gold.text(values)
	if err != nil || !ok {
		return nil, err
	}
	if m.goldPattern == nil {
		return &s, nil
	}
	found := m.goldPattern.FindStringSubmatch(strings.TrimSpace(s))
	if found == nil {
		return nil, fmt.Errorf("gold_pattern finds nothing in field %s", m.gold.name)
	}
	gold := strings.TrimSpace(found[1])
	if gold == "" {
		return nil, fmt.Errorf("gold_pattern finds an empty answer in field %s", m.gold.name)
	}
	return &gold, nil
}

// metaOf is the row's metadata as JSON text. One field that is an object is
// the metadata itself; otherwise each field is a key.
func (m *Mapper) metaOf(values map[string]any) string {
	if len(m.meta) == 1 {
		if v, ok := m.meta[0].find(values); ok {
			if object, isObject := v.(map[string]any); isObject {
				return string(appendJSON(nil, object))
			}
		}
	}
	out := map[string]any{}
	for _, f := range m.meta {
		if v, ok := f.find(values); ok {
			out[f.name] = v
		}
	}
	if len(out) == 0 {
		return ""
	}
	return string(appendJSON(nil, out))
}

// Items reads all tasks of a source: its files in order, at most src.Limit
// rows that can be used. A row that cannot is a *[RowError], and iteration
// goes on after it; any other error ends it.
func Items(ctx context.Context, files []File, src *recipe.PromptSource, o Options) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		m, err := NewMapper(src)
		if err != nil {
			yield(Item{}, err)
			return
		}
		used := 0
		for _, f := range files {
			of := m.With(ctx, f, o.Images)
			for row, err := range Rows(ctx, f, o) {
				var items []Item
				if err == nil {
					items, err = of.Items(row)
				}
				if err != nil {
					var fault *RowError
					if !yield(Item{}, err) || !errors.As(err, &fault) {
						return
					}
					continue
				}
				for _, item := range items {
					if !yield(item, nil) {
						return
					}
				}
				if used++; src.Limit > 0 && used >= src.Limit {
					return
				}
			}
		}
	}
}
