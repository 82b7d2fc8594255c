package wallet

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
)

// The file of a wallet, little-endian:
//
//	0    8  magic
//	8   16  boot of the machine in which it was written
//	24   8  1 where it was closed and synced, else 0
//	32   8  period
//	40   8  number of the last request
//	48   8  lost: micro-dollars under way whenever a process died
//	64      entries of 128 bytes, one for each teacher
//
//	entry  0    8  1 where it is used
//	       8    8  bytes of the teacher's id
//	       16  64  the id
//	       80   8  charged: spent and reserved, micro-dollars
//	       88   8  held: of it reserved for what is under way
//
// A reservation is a store of 16 bytes to the page cache, which outlives the
// process however it ends. It is not synced: what a power failure can take is
// told from the boot that the file names, and then the whole loan counts as
// spent.
const (
	fileMagic  = "stillwl1"
	headerSize = 64
	entrySize  = 128
	mostIDs    = 128
	idBytes    = 64
	fileSize   = headerSize + mostIDs*entrySize

	offBoot, offClean, offPeriod, offSeq, offLost = 8, 24, 32, 40, 48
	offID, offCounts                              = 8, 80
)

// A file is what a wallet remembers across the death of its process.
type file struct {
	f       *os.File
	mapped  []byte // the file; nil where it is written by calls
	period  int64
	seq     int64
	lost    int64
	entries []entry
}

// An entry counts one teacher's money.
type entry struct {
	teacher string
	charged int64
	held    int64
}

// openFile opens a wallet's file, or makes it. What was under way when the last
// process died counts as spent. A file that cannot be trusted is begun anew with
// period 0.
func openFile(path, boot string) (*file, error) {
	osf, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	w := &file{f: osf}
	data := make([]byte, fileSize)
	n, _ := osf.ReadAt(data, 0)
	if n < fileSize || !w.read(data, boot) {
		*w = file{f: osf}
	}
	for i := range w.entries {
		w.lost += w.entries[i].held
		w.entries[i].held = 0
	}
	if err := w.writeAll(boot, false); err != nil {
		return nil, errors.Join(err, osf.Close())
	}
	w.mapped = mapFile(osf)
	return w, nil
}

// put stores bytes at a place. A disk that fails under a map is an error as
// well.
func (w *file) put(b []byte, off int) (err error) {
	if w.mapped == nil {
		_, err := w.f.WriteAt(b, int64(off))
		return err
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("store in %s: %v", w.f.Name(), r)
		}
	}()
	copy(w.mapped[off:], b)
	return nil
}

// read takes in a file; false where it says nothing that can be relied on.
func (w *file) read(data []byte, boot string) bool {
	if string(data[:len(fileMagic)]) != fileMagic {
		return false
	}
	clean := getInt(data, offClean) == 1
	if !clean && (boot == "" || !bytes.Equal(data[offBoot:offBoot+16], bootBytes(boot))) {
		return false
	}
	w.period, w.seq, w.lost = getInt(data, offPeriod), getInt(data, offSeq), getInt(data, offLost)
	for i := range mostIDs {
		e := data[headerSize+i*entrySize:][:entrySize]
		if getInt(e, 0) != 1 {
			break
		}
		n := getInt(e, offID)
		if n < 0 || n > idBytes {
			return false
		}
		w.entries = append(w.entries, entry{
			teacher: string(e[offID+8:][:n]), charged: getInt(e, offCounts), held: getInt(e, offCounts+8),
		})
	}
	return true
}

// writeAll writes and syncs the whole file.
func (w *file) writeAll(boot string, clean bool) error {
	data := make([]byte, fileSize)
	copy(data, fileMagic)
	copy(data[offBoot:], bootBytes(boot))
	if clean {
		putInt(data, offClean, 1)
	}
	putInt(data, offPeriod, w.period)
	putInt(data, offSeq, w.seq)
	putInt(data, offLost, w.lost)
	for i := range w.entries {
		copy(data[headerSize+i*entrySize:], w.entries[i].encode())
	}
	if _, err := w.f.WriteAt(data, 0); err != nil {
		return err
	}
	return w.f.Sync()
}

func (e *entry) encode() []byte {
	out := make([]byte, entrySize)
	putInt(out, 0, 1)
	putInt(out, offID, int64(len(e.teacher)))
	copy(out[offID+8:], e.teacher)
	putInt(out, offCounts, e.charged)
	putInt(out, offCounts+8, e.held)
	return out
}

// entry is the place of a teacher's counts, which is made where it is missing.
func (w *file) entry(teacher string) (int, error) {
	for i := range w.entries {
		if w.entries[i].teacher == teacher {
			return i, nil
		}
	}
	switch {
	case len(teacher) > idBytes:
		return 0, fmt.Errorf("teacher id of %d bytes, at most %d", len(teacher), idBytes)
	case len(w.entries) == mostIDs:
		return 0, fmt.Errorf("%s counts %d teachers already; let the builds of this dataset end, then remove it", w.f.Name(), mostIDs)
	}
	e := entry{teacher: teacher}
	i := len(w.entries)
	if err := w.put(e.encode(), headerSize+i*entrySize); err != nil {
		return 0, err
	}
	w.entries = append(w.entries, e)
	return i, nil
}

// add changes the counts of one teacher. The file has them before it returns.
func (w *file) add(i int, charged, held int64) error {
	e := w.entries[i]
	e.charged += charged
	e.held = max(e.held+held, 0)
	var counts [16]byte
	putInt(counts[:], 0, e.charged)
	putInt(counts[:], 8, e.held)
	if err := w.put(counts[:], headerSize+i*entrySize+offCounts); err != nil {
		return err
	}
	w.entries[i] = e
	return nil
}

// number gives the next request its number.
func (w *file) number() (int64, error) {
	seq := w.seq + 1
	if err := w.header(offSeq, seq); err != nil {
		return 0, err
	}
	w.seq = seq
	return seq, nil
}

// jump makes the next request's number one above seq.
func (w *file) jump(seq int64) error {
	if err := w.header(offSeq, seq); err != nil {
		return err
	}
	w.seq = seq
	return nil
}

// enter notes the account that the counts belong to.
func (w *file) enter(period int64) error {
	if err := w.header(offPeriod, period); err != nil {
		return err
	}
	w.period = period
	return nil
}

// begin begins an account at what is under way. Its period is written last: a
// process that dies in between begins again.
func (w *file) begin(period int64) error {
	if err := w.enter(0); err != nil {
		return err
	}
	for i := range w.entries {
		if err := w.add(i, w.entries[i].held-w.entries[i].charged, 0); err != nil {
			return err
		}
	}
	if err := w.header(offLost, 0); err != nil {
		return err
	}
	w.lost = 0
	return w.enter(period)
}

func (w *file) header(off int, value int64) error {
	var b [8]byte
	putInt(b[:], 0, value)
	return w.put(b[:], off)
}

// close syncs the file and marks it as whole.
func (w *file) close(boot string) error {
	return errors.Join(w.abandon(), w.writeAll(boot, true), w.f.Close())
}

// abandon lets the map go.
func (w *file) abandon() error {
	if w.mapped == nil {
		return nil
	}
	m := w.mapped
	w.mapped = nil
	return unmapFile(m)
}

func getInt(b []byte, off int) int64    { return int64(binary.LittleEndian.Uint64(b[off:])) }
func putInt(b []byte, off int, v int64) { binary.LittleEndian.PutUint64(b[off:], uint64(v)) }
