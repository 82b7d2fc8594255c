package activities

import (
	"fmt"
	"strings"

	"github.com/stillhouse-data/stillhouse/teachers/teacherstest"
)

// judgedKey is the key that a judge's request asks to be repeated.
func judgedKey(body string) string {
	body = strings.ReplaceAll(body, `\"`, `"`)
	_, key, _ := strings.Cut(body[max(strings.LastIndex(body, `{"key": "`), 0):], `{"key": "`)
	key, _, _ = strings.Cut(key, `"`)
	return key
}

// judged is what a judge ends with that gives a score.
func judged(r teacherstest.Request, score float64) string {
	return fmt.Sprintf("Right.\n"+`{"key": "%s", "score": %v}`, judgedKey(r.Prompt), score)
}

// chosen is what a judge ends with that compared two answers.
func chosen(r teacherstest.Request, choice string) string {
	return fmt.Sprintf("Hm.\n"+`{"key": "%s", "choice": "%s"}`, judgedKey(r.Prompt), choice)
}
