package report

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// ReadPreferences reads judgements as AlpacaEval publishes them: JSON lines, or
// one JSON array, of objects with generator_1, generator_2 and preference, which
// is 1 where the first is better, 2 where the second is, and what lies between
// where the judge is less sure; null says nothing and is left out. Optional are
// instruction (or task), judge (or annotator), and output_1 and output_2, whose
// lengths are taken. A fault names its row.
func ReadPreferences(r io.Reader, add func(Preference) error) error {
	in := bufio.NewReaderSize(r, 1<<16)
	dec := json.NewDecoder(in)
	first, err := firstByte(in)
	if err != nil {
		return fmt.Errorf("no judgements: %w", err)
	}
	if first == '[' {
		if _, err := dec.Token(); err != nil {
			return err
		}
	}
	for n := 1; dec.More(); n++ {
		var row struct {
			First      string   `json:"generator_1"`
			Second     string   `json:"generator_2"`
			Preference *float64 `json:"preference"`
			Task       string   `json:"task"`
			Prompt     string   `json:"instruction"`
			Judge      string   `json:"judge"`
			Annotator  string   `json:"annotator"`
			Output1    *string  `json:"output_1"`
			Output2    *string  `json:"output_2"`
		}
		if err := dec.Decode(&row); err != nil {
			return fmt.Errorf("judgement %d: %w", n, err)
		}
		switch {
		case row.First == "" || row.Second == "":
			return fmt.Errorf("judgement %d: generator_1 and generator_2 must name the two answerers", n)
		case row.Preference == nil:
			continue
		case !(*row.Preference >= 1 && *row.Preference <= 2):
			return fmt.Errorf("judgement %d: preference is %v; it must be between 1 (the first is better) and 2 (the second is)", n, *row.Preference)
		}
		p := Preference{
			Task: cmp.Or(row.Task, row.Prompt, fmt.Sprint("row ", n)), Judge: cmp.Or(row.Judge, row.Annotator, "imported"),
			A: row.Second, B: row.First, Win: *row.Preference - 1,
		}
		if p.Task = bounded(p.Task); p.Judge == Verifier {
			return fmt.Errorf("judgement %d: no judge may be called %s, which is the verifier's name", n, Verifier)
		}
		if row.Output1 != nil && row.Output2 != nil {
			p.Longer = ref(float64(utf8.RuneCountInString(*row.Output2) - utf8.RuneCountInString(*row.Output1)))
		}
		if err := add(p); err != nil {
			return err
		}
	}
	_, err = dec.Token() // the end, or that of the array
	switch {
	case err == io.EOF && first == '[':
		return fmt.Errorf("the array of judgements does not end: %w", io.ErrUnexpectedEOF)
	case err == io.EOF:
		return nil
	}
	return err
}

// firstByte peeks at the first byte that is no white space.
func firstByte(in *bufio.Reader) (byte, error) {
	for {
		b, err := in.Peek(1)
		if err == io.EOF {
			return 0, io.ErrUnexpectedEOF
		}
		if err != nil {
			return 0, err
		}
		if !strings.ContainsRune(" \t\r\n", rune(b[0])) {
			return b[0], nil
		}
		if _, err := in.Discard(1); err != nil {
			return 0, err
		}
	}
}
