package render

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// MethodOPD is distillation on what the student writes, scored by the teacher
// that owns a prompt's domain and effort: on-policy, from one teacher or
// several.
const MethodOPD = "opd"

// routedView is the view that it reads; its tag says where a trainer looks for
// a prompt's teacher.
const routedView = "prompts_routed"

// teacherMapFile is what the view writes beside the prompts.
const teacherMapFile = "teacher_map.json"

// A teacherMap is who scores the prompts of which domain and effort.
type teacherMap struct {
	Format   int             `json:"teacher_map"`
	Column   string          `json:"column"` // of the view, that names a prompt's teacher
	Prompts  int64           `json:"prompts"`
	Teachers []routedTeacher `json:"teachers"`
}

// A routedTeacher is a teacher and the domains and efforts that it owns.
type routedTeacher struct {
	Tag             string       `json:"tag"` // what the column holds
	Model           string       `json:"model"`
	Weights         string       `json:"weights"`
	ScoreURL        string       `json:"score_url"`
	TokenizerSHA256 string       `json:"tokenizer_sha256"`
	Cells           []routedCell `json:"cells"`
}

type routedCell struct {
	Domain  string `json:"domain"`
	Effort  string `json:"effort"`
	Prompts int64  `json:"prompts"`
}

// routableName is what a teacher may be called where a trainer reads the name out
// of a configuration, a flag NAME=URL or a path of keys.
var routableName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// routingOf reads who scores what, and refuses what a trainer would route
// wrongly without a word: no owner, two owners, a prompt that nobody counted,
// a prompt of the test split.
func routingOf(in Input, column string) (*teacherMap, error) {
	text, ok := in.Beside[teacherMapFile]
	switch {
	case in.View.Name != routedView:
		return nil, fmt.Errorf("%s reads view %s, not %s", MethodOPD, routedView, in.View.Name)
	case !ok:
		return nil, fmt.Errorf("the view has no %s", teacherMapFile)
	case in.View.Rows["test"] > 0 || len(filesOf(in.View, "test")) > 0:
		return nil, errors.New("the view has prompts of the test split, which are never trained on")
	}
	var m teacherMap
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, fmt.Errorf("%s: %w", teacherMapFile, err)
	}
	return &m, m.check(column, in.View.Rows["train"])
}

func (m *teacherMap) check(column string, prompts int64) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%s: %s", teacherMapFile, fmt.Sprintf(format, args...))
	}
	if m.Format != 1 || len(m.Teachers) == 0 {
		return bad("is of format %d with %d teachers; want format 1 and one teacher at least", m.Format, len(m.Teachers))
	}
	if m.Column != column {
		return bad("the teacher of a prompt is in column %s, and the trainer looks in %s", m.Column, column)
	}
	owner, seen, sum := map[[2]string]string{}, map[string]bool{}, int64(0)
	for _, t := range m.Teachers {
		switch {
		case !routableName.MatchString(t.Tag):
			return bad("%q is no name for a teacher here: letters, digits, point, - and _", t.Tag)
		case seen[t.Tag]:
			return bad("teacher %s is there twice", t.Tag)
		case len(t.Cells) == 0:
			return bad("teacher %s owns nothing", t.Tag)
		}
		seen[t.Tag] = true
		for _, c := range t.Cells {
			at := [2]string{c.Domain, c.Effort}
			if other := owner[at]; other != "" {
				return bad("%s/%s has two owners, %s and %s", c.Domain, c.Effort, other, t.Tag)
			}
			owner[at] = t.Tag
			sum += c.Prompts
		}
	}
	if sum != m.Prompts || sum != prompts {
		return bad("teachers own %d prompts, it says %d, and the view has %d: some have no owner", sum, m.Prompts, prompts)
	}
	return nil
}

// oneVocabulary refuses teachers whose vocabularies differ, for trainers that
// send token ids: a teacher would score other words than the student wrote. It
// says what is not known.
func (m *teacherMap) oneVocabulary(trainer string) (string, error) {
	of := map[string][]string{} // teachers by digest
	for _, t := range m.Teachers {
		of[t.TokenizerSHA256] = append(of[t.TokenizerSHA256], t.Tag)
	}
	unknown := of[""]
	delete(of, "")
	if len(of) > 1 {
		var groups []string
		for digest, tags := range of {
			groups = append(groups, fmt.Sprintf("%s (%.12s)", strings.Join(tags, ", "), digest))
		}
		slices.Sort(groups)
		return "", fmt.Errorf("%s sends the student's token ids to every teacher, and their tokenizers differ: %s", trainer, strings.Join(groups, "; "))
	}
	if len(unknown) > 0 {
		return fmt.Sprintf("%s sends the student's token ids to every teacher: each must have the student's tokenizer, and of %s it is not known (tokenizer_sha256)", trainer, strings.Join(unknown, ", ")), nil
	}
	return trainer + " sends the student's token ids to every teacher: the teachers have one tokenizer, and the student must have the same", nil
}

// urls are the servers that score, by teacher; each teacher must have one.
func (m *teacherMap) urls(trainer, path string) (map[string]string, error) {
	out := map[string]string{}
	for _, t := range m.Teachers {
		if t.ScoreURL == "" {
			return nil, fmt.Errorf("%s asks a server for each teacher, and %s has none: set its score_url in the recipe", trainer, t.Tag)
		}
		u, err := url.Parse(t.ScoreURL)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" {
			return nil, fmt.Errorf("the score_url of %s is no plain http or https address", t.Tag)
		}
		out[t.Tag] = strings.TrimSuffix(t.ScoreURL, "/")
		if path != "" && !strings.HasSuffix(out[t.Tag], path) {
			out[t.Tag] += path
		}
	}
	return out, nil
}

// weights are the teachers' weights; each teacher must have some.
func (m *teacherMap) weights(trainer string) (map[string]string, error) {
	out := map[string]string{}
	for _, t := range m.Teachers {
		if t.Weights == "" {
			return nil, fmt.Errorf("%s loads the weights of each teacher, and %s has none: set its weights in the recipe", trainer, t.Tag)
		}
		out[t.Tag] = t.Weights
	}
	return out, nil
}

// owned says who scores how much, for a note.
func (m *teacherMap) owned() string {
	var parts []string
	for _, t := range m.Teachers {
		var n int64
		var cells []string
		for _, c := range t.Cells {
			n += c.Prompts
			cells = append(cells, c.Domain+"/"+c.Effort)
		}
		parts = append(parts, fmt.Sprintf("%s scores %d prompts (%s)", t.Tag, n, strings.Join(cells, ", ")))
	}
	return strings.Join(parts, "; ")
}

// half is half of the student's length, which bounds an answer where nothing
// else does.
func half(in Input) int64 { return int64(in.Student.MaxLength / 2) }

// notes are the notes of every trainer.
func (m *teacherMap) notes(in Input, vocabulary string) []string {
	return []string{
		m.owned(), vocabulary,
		fmt.Sprintf("prompt and answer together are within %d tokens, of which the answer has half unless params say otherwise", in.Student.MaxLength),
	}
}
