package activities

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
)

// An orderRow is what is kept of a prompt while equals are looked for.
type orderRow struct {
	ID      string
	Efforts int // number of the list of its efforts
	Source  int
	Members uint32 // prompts that it stands for
	// Same and Near are the order of its equal and one more; 0 for none.
	Same, Near int64
	Jaccard    float64 // to Near
}

const (
	orderRowBytes = 56
	// orderChunk is how many rows are read at once where all are.
	orderChunk = 4096
	// orderMemory is how many rows are in memory at most, by place.
	orderMemory = 1 << 20
)

// An orderTable holds a row for each prompt at the place of its order: the first
// million in memory, further ones on the disk, so that memory does not grow with
// them.
type orderTable struct {
	memory []byte
	file   *os.File
	end    int64 // the order after the last
}

func newOrderTable(path string) (*orderTable, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return &orderTable{file: f}, nil
}

func (t *orderTable) close() {
	_ = t.file.Close()
	_ = os.Remove(t.file.Name())
}

// put writes a row.
func (t *orderTable) put(order int64, r orderRow) error {
	if order < 0 {
		return fmt.Errorf("prompt %s has the order %d", r.ID, order)
	}
	t.end = max(t.end, order+1)
	var b [orderRowBytes]byte
	if err := r.encode(&b); err != nil {
		return err
	}
	at := order * orderRowBytes
	if order < orderMemory {
		if need := int(at) + orderRowBytes; need > len(t.memory) {
			t.memory = append(t.memory, make([]byte, need-len(t.memory))...)
		}
		copy(t.memory[at:], b[:])
		return nil
	}
	_, err := t.file.WriteAt(b[:], at-orderMemory*orderRowBytes)
	return err
}

// get reads a row that is there.
func (t *orderTable) get(order int64) (orderRow, error) {
	if order < 0 || order >= t.end {
		return orderRow{}, fmt.Errorf("no prompt has the order %d", order)
	}
	at := order * orderRowBytes
	if order < orderMemory {
		return decodeOrderRow(t.memory[at : at+orderRowBytes]), nil
	}
	var b [orderRowBytes]byte
	if _, err := t.file.ReadAt(b[:], at-orderMemory*orderRowBytes); err != nil {
		return orderRow{}, err
	}
	return decodeOrderRow(b[:]), nil
}

// change changes a row that is there.
func (t *orderTable) change(order int64, change func(*orderRow)) error {
	r, err := t.get(order)
	if err != nil {
		return err
	}
	change(&r)
	return t.put(order, r)
}

// each visits the rows that are there, by order. A row that is changed meanwhile
// may be visited as it was.
func (t *orderTable) each(ctx context.Context, visit func(order int64, r *orderRow) error) error {
	for order := int64(0); order < min(t.end, orderMemory); order++ {
		if err := t.visit(order, t.memory[order*orderRowBytes:(order+1)*orderRowBytes], visit); err != nil {
			return err
		}
	}
	chunk := make([]byte, orderChunk*orderRowBytes)
	for from := int64(orderMemory); from < t.end; from += orderChunk {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := t.file.ReadAt(chunk, (from-orderMemory)*orderRowBytes)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		for i := range n / orderRowBytes {
			if err := t.visit(from+int64(i), chunk[i*orderRowBytes:(i+1)*orderRowBytes], visit); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

func (t *orderTable) visit(order int64, b []byte, visit func(int64, *orderRow) error) error {
	if binary.LittleEndian.Uint32(b[20:]) == 0 {
		return nil // a row of the sources whose prompt another had before
	}
	r := decodeOrderRow(b)
	return visit(order, &r)
}

func (r *orderRow) encode(b *[orderRowBytes]byte) error {
	id, err := hex.DecodeString(r.ID)
	if err != nil || len(id) != 16 {
		return fmt.Errorf("%q is no prompt id", r.ID)
	}
	copy(b[:16], id)
	binary.LittleEndian.PutUint32(b[16:], uint32(r.Efforts))
	binary.LittleEndian.PutUint32(b[20:], uint32(r.Source)+1) // 0 is no row
	binary.LittleEndian.PutUint32(b[24:], r.Members)
	binary.LittleEndian.PutUint64(b[32:], uint64(r.Same))
	binary.LittleEndian.PutUint64(b[40:], uint64(r.Near))
	binary.LittleEndian.PutUint64(b[48:], math.Float64bits(r.Jaccard))
	return nil
}

func decodeOrderRow(b []byte) orderRow {
	return orderRow{
		ID: hex.EncodeToString(b[:16]), Efforts: int(binary.LittleEndian.Uint32(b[16:])), Source: int(binary.LittleEndian.Uint32(b[20:])) - 1,
		Members: binary.LittleEndian.Uint32(b[24:]), Same: int64(binary.LittleEndian.Uint64(b[32:])),
		Near: int64(binary.LittleEndian.Uint64(b[40:])), Jaccard: math.Float64frombits(binary.LittleEndian.Uint64(b[48:])),
	}
}
