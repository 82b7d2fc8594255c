package sources

import (
	"context"
	"errors"
	"iter"

	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
)

// A Finder finds files here and, through Remote, in stores.
type Finder struct {
	Dir    string // where relative patterns start
	Remote func(ctx context.Context, url string) ([]File, error)
}

// Find returns the files that a path, glob, folder or s3:// URL names, sorted.
func (f Finder) Find(ctx context.Context, pattern string) ([]File, error) { return nil, errors.New("find") }

// Find returns the files that a path, glob or folder names, sorted.
func Find(dir, pattern string) ([]File, error) {
	return Finder{Dir: dir}.Find(context.Background(), pattern)
}

// Rows reads a file row by row.
func Rows(ctx context.Context, f File, o Options) iter.Seq2[Row, error] { return func(func(Row, error) bool) {} }

// A Mapper makes tasks of rows.
type Mapper struct{}

// NewMapper prepares a source's mapping.
func NewMapper(src *recipe.PromptSource) (*Mapper, error) { return nil, errors.New("mapper") }

// Items returns one item per effort.
func (m *Mapper) Items(row Row) ([]Item, error) { return nil, errors.New("items") }

// An AnswerMapper makes recorded answers of rows.
type AnswerMapper struct{}

// NewAnswerMapper prepares a recorded teacher's mapping.
func NewAnswerMapper(t *recipe.Teacher) (*AnswerMapper, error) { return nil, errors.New("mapper") }

// Answers returns a row's prompt and the answers to it.
func (m *AnswerMapper) Answers(row Row) (chat.Prompt, []RecordedAnswer, error) { return chat.Prompt{}, nil, errors.New("answers") }
