package views

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/stillhouse-data/stillhouse/datasets"
)

// A finished is a file of an export that is whole, with what was passed over
// on the way to it: all that a later run needs to go on behind it.
type finished struct {
	File
	Elsewhere int64                     `json:"elsewhere,omitempty"`
	Forbidden int64                     `json:"forbidden,omitempty"`
	Unfit     int64                     `json:"unfit,omitempty"`
	Why       []string                  `json:"why,omitempty"`
	Images    map[string]datasets.Image `json:"images,omitempty"` // that its lines name
}

// journalName is the file of an export that has begun, in its own folder. A
// name with this dot is no data of any loader.
const journalName = ".stillhouse-export.jsonl"

// A journal is the list of an export's finished files, kept beside them. It is
// locked while its export runs.
type journal struct {
	f    *os.File
	done map[string]finished // by path
}

// errBusy: another process writes the same export.
var errBusy = errors.New("another export of the same view writes there")

// openJournal opens or starts the journal of a folder, and locks it.
func openJournal(dir string) (*journal, error) {
	f, err := os.OpenFile(filepath.Join(dir, journalName), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		err = fmt.Errorf("%w (%s); wait for it to end", errBusy, dir)
		return nil, errors.Join(err, f.Close())
	}
	text, err := io.ReadAll(io.LimitReader(f, maxAboutBytes))
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	j := &journal{f: f, done: map[string]finished{}}
	whole := int64(0) // a line that a crash cut off is none
	for line := range bytes.Lines(text) {
		var d finished
		if !bytes.HasSuffix(line, []byte("\n")) || json.Unmarshal(line, &d) != nil || !plainName(d.Path) {
			break
		}
		whole += int64(len(line))
		j.done[d.Path] = d
	}
	if err := errors.Join(f.Truncate(whole), seekEnd(f)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return j, nil
}

func seekEnd(f *os.File) error {
	_, err := f.Seek(0, io.SeekEnd)
	return err
}

// add notes a finished file for good.
func (j *journal) add(d finished) error {
	out := bufio.NewWriter(j.f)
	if err := json.NewEncoder(out).Encode(d); err != nil {
		return err
	}
	j.done[d.Path] = d
	return errors.Join(out.Flush(), j.f.Sync())
}

// remove takes the journal away, before its folder becomes an export.
func (j *journal) remove() error { return os.Remove(j.f.Name()) }

func (j *journal) close() error { return j.f.Close() }

// A passed is how a tally stood before a file.
type passed struct {
	elsewhere, forbidden, unfit int64
	why                         int
}

func (t *tally) passed() passed { return passed{t.elsewhere, t.forbidden, t.unfit, len(t.why)} }

// since is what was passed over since then, for the journal.
func (t *tally) since(p passed, d *finished) {
	d.Elsewhere, d.Forbidden, d.Unfit = t.elsewhere-p.elsewhere, t.forbidden-p.forbidden, t.unfit-p.unfit
	d.Why = t.why[p.why:]
}

// again counts what an earlier run passed over.
func (t *tally) again(d *finished) {
	t.elsewhere += d.Elsewhere
	t.forbidden += d.Forbidden
	t.unfit += d.Unfit
	t.why = append(t.why, d.Why[:min(len(d.Why), maxNamed-len(t.why))]...)
}
