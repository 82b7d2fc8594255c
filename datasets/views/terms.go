package views

import (
	"fmt"
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
)

// checkTerms holds the rows to what their teachers' terms allow: the teachers
// whose rows may not go out, those that are not known, and an error that says so
// of the first and ends with what to do, for who leaves no rows out.
func checkTerms(m *catalog.Manifest, rows map[string]int64, next string) (forbidden map[string]bool, warnings []string, refused error) {
	warnings = []string{}
	terms := teacherTerms(m)
	forbidden = map[string]bool{}
	say := "set terms.training in the recipe"
	if m.Imported != nil {
		say = "where they do, import it again with --training allowed"
	}
	var named []string
	for _, id := range sortedKeys(rows) {
		if rows[id] == 0 {
			continue
		}
		switch terms[id].Training {
		case catalog.TrainingAllowed:
		case catalog.TrainingForbidden:
			forbidden[id] = true
			licence := ""
			if terms[id].Licence != "" {
				licence = fmt.Sprintf(", licence %q", terms[id].Licence)
			}
			named = append(named, fmt.Sprintf("%s (%s%s)", id, plural(int(rows[id]), "row"), licence))
		default:
			warnings = append(warnings, fmt.Sprintf("teacher %s (%d rows): it is not known whether its terms allow training; %s", id, rows[id], say))
		}
	}
	if len(named) > 0 {
		refused = fmt.Errorf("%w on the answers of %s; %s, or correct terms.training in the recipe if it is wrong", ErrForbidden, strings.Join(named, ", "), next)
	}
	return forbidden, warnings, refused
}

func teacherTerms(m *catalog.Manifest) map[string]catalog.Terms {
	terms := map[string]catalog.Terms{}
	for _, t := range m.Teachers {
		terms[t.ID] = t.Terms
	}
	return terms
}

// Terms are what an export records of a teacher whose answers are in it.
type Terms struct {
	Rows     int64  `json:"rows"` // in the version; pairs count both answers
	Licence  string `json:"licence,omitempty"`
	URL      string `json:"url,omitempty"`
	Training string `json:"training"` // allowed, forbidden or unknown
}

// termsOf records the terms of every teacher that gave rows.
func termsOf(m *catalog.Manifest, rows map[string]int64) map[string]Terms {
	terms, out := teacherTerms(m), map[string]Terms{}
	for id, n := range rows {
		if n == 0 {
			continue
		}
		t := terms[id]
		training := t.Training
		if training == "" {
			training = catalog.TrainingUnknown
		}
		out[id] = Terms{Rows: n, Licence: t.Licence, URL: t.URL, Training: training}
	}
	return out
}

// teachersOf are the teachers whose words a row holds.
func teachersOf(row any) []string {
	switch r := row.(type) {
	case *datasets.Row:
		return []string{r.Teacher}
	case *datasets.Pair:
		return []string{r.ChosenTeacher, r.RejectedTeacher}
	}
	return nil
}
