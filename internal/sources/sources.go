// Package sources reads prompt files and recorded answers, row by row.
//
//	files, err := sources.Find(r.Dir, src.Path)
//	m, err := sources.NewMapper(&src)
//	for row, err := range sources.Rows(ctx, files[0], sources.Options{}) {
//		// err is a *RowError for a row that cannot be read; iteration goes on
//		items, err := m.Items(row)
//	}
//
// A file is never held in memory as a whole, and no row may be larger than
// [MaxLine].
package sources

import (
	"context"
	"io"
	"iter"

	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// MaxLine is the largest row, in bytes.
const MaxLine = 16 << 20

// A File is one file of prompts or answers.
type File struct {
	Name   string // base name: the format comes from it
	Path   string // on this machine; "" elsewhere
	Key    string // in a store; "" on this machine
	Size   int64
	SHA256 string // hex, of the bytes as they are stored
	Open   func(ctx context.Context) (io.ReadCloser, error)
	// OpenAt is needed by Parquet only. The function that it returns closes.
	OpenAt func(ctx context.Context) (io.ReaderAt, func() error, error)
}

// A Row is one record of a file. Numbers are json.Number.
type Row struct {
	Where  string // such as "file.jsonl:17"
	Values map[string]any
}

// A RowError is a row that cannot be read or used. Reading goes on after it.
type RowError struct {
	Where  string
	Reason string
}

// Error gives place and reason.
func (e *RowError) Error() string { return e.Where + ": " + e.Reason }

// A FileError is a file, or a pattern of files, that cannot be used as it is:
// no second try helps. What failed on the way to a file's bytes is no FileError.
type FileError struct {
	Op   string // find or read
	Name string // the file's name, or the pattern as it was written
	Err  error  // what is wrong, and what to do about it
}

// Error gives operation, name and reason.
func (e *FileError) Error() string { return e.Op + " " + e.Name + ": " + e.Err.Error() }

// Unwrap gives the reason.
func (e *FileError) Unwrap() error { return e.Err }

// Options of Rows.
type Options struct {
	// MaxLine overrides the largest row, in bytes; 0 is MaxLine.
	MaxLine int
	// Images knows what the references of the rows' images mean; nil: rows that
	// name some are refused.
	Images ImageSource
	// OpenParquet reads the rows of a Parquet file of that size as maps.
	OpenParquet ParquetReader
}

// A ParquetReader reads the rows of a Parquet file of that size as maps.
type ParquetReader func(ctx context.Context, r io.ReaderAt, size int64) iter.Seq2[map[string]any, error]

// An Item is a row as one task: a prompt at one effort.
type Item struct {
	Prompt chat.Prompt
	Domain string
	Effort string
	Gold   *string
	Tests  *string
	Group  string
	Meta   string // JSON text, an object; "" for none
	Where  string
}

// A Recording is the recorded answers to one prompt.
type Recording struct {
	Prompt  chat.Prompt
	Answers []RecordedAnswer // in the order of their samples
}

// A RecordedAnswer is one answer of a recorded teacher.
type RecordedAnswer struct {
	// Before are the turns of a trajectory between the prompt and the answer
	// itself: the assistant's own, the results of its tools, and what a user
	// said meanwhile. Each says whether the training loss sees it.
	Before           []chat.Message
	Train            bool // whether the training loss sees the answer itself
	Content          *string
	Reasoning        *string
	ToolCalls        []chat.ToolCall
	Finish           string // "stop" where the row says nothing
	Model            string
	CompletionTokens *int64
	Raw              []byte // the answer as JSON, as it was read
}
