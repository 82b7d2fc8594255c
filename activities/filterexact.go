package activities

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/stillhouse-data/stillhouse/datasets/dedup"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
)

// step is the place of the one step of a name, or -1.
func (w *filterWork) step(name string) int {
	for i := range w.recipe.PromptFilter {
		if w.recipe.PromptFilter[i].Name == name {
			return i
		}
	}
	return -1
}

// compared visits the prompts of some parts that follow each other to which a
// step applies and which contamination leaves in.
func (w *filterWork) compared(ctx context.Context, plan *filterPlan, from, to, step int, visit func(*filterPrompt) error) error {
	return w.each(ctx, plan, from, to, func(p *filterPrompt, f *promptFinding) error {
		if applies, _ := p.marksOf(); !applies.has(step) || w.outOf(p, f) {
			return nil
		}
		return visit(p)
	})
}

// each visits the prompts of some parts that follow each other, with what the
// matching found in them.
func (w *filterWork) each(ctx context.Context, plan *filterPlan, from, to int, visit func(*filterPrompt, *promptFinding) error) error {
	list, err := w.hits(ctx, plan, from)
	if err != nil {
		return err
	}
	hits := readFindings(list)
	defer hits.close()
	n := 0
	for i := from; i < to; i++ {
		for p, err := range w.prompts(ctx, &plan.Parts[i]) {
			if err == nil && n%4096 == 0 {
				err = ctx.Err()
				w.beat(fmt.Sprintf("filtering prompts: compared %d", n))
			}
			if err != nil {
				return err
			}
			n++
			f, err := hits.of(p.PromptID)
			if err != nil {
				return err
			}
			if err := visit(&p, f); err != nil {
				return err
			}
		}
	}
	return nil
}

// exact writes which prompts say to the word what an earlier one says: pairs of
// orders, by the first.
func (w *filterWork) exact(ctx context.Context, plan *filterPlan) (err error) {
	dir, err := os.MkdirTemp(w.temp, "filter-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	same := dedup.NewExact(dir, 0)
	defer func() { err = errors.Join(err, same.Close()) }()
	err = w.compared(ctx, plan, 0, len(plan.Parts), w.step(recipe.Duplicate), func(p *filterPrompt) error {
		return same.Add(dedup.PromptKey(p.Domain, &p.Prompt), uint64(p.Order))
	})
	if err != nil {
		return err
	}
	return w.produce(ctx, stageSame, 0, func(out io.Writer) error {
		return same.Find(ctx, func(order, of uint64) error {
			_, err := out.Write(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, order), of))
			return err
		})
	})
}

// same visits the exact duplicates: order, and that of the first that says the
// same.
func (w *filterWork) same(ctx context.Context, visit func(order, of uint64) error) error {
	if w.step(recipe.Duplicate) < 0 {
		return nil
	}
	keys, err := w.units(ctx, stageSame, 1)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(w.temp, "filter-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	f, err := w.fetch(ctx, keys[0], dir+"/same")
	if err != nil {
		return err
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, 1<<16)
	for {
		var b [16]byte
		switch _, err := io.ReadFull(in, b[:]); {
		case err == io.EOF:
			return nil
		case err != nil:
			return fmt.Errorf("read %s: %w", keys[0], err)
		}
		if err := visit(binary.LittleEndian.Uint64(b[:8]), binary.LittleEndian.Uint64(b[8:])); err != nil {
			return err
		}
	}
}

// orderSet is a set of orders, a bit each.
type orderSet []uint64

func (s *orderSet) add(order uint64) {
	for uint64(len(*s)) <= order/64 {
		*s = append(*s, make([]uint64, max(64, len(*s)))...)
	}
	(*s)[order/64] |= 1 << (order % 64)
}

func (s orderSet) has(order uint64) bool {
	return order/64 < uint64(len(s)) && s[order/64]>>(order%64)&1 == 1
}
