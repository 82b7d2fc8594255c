package views

import (
	"context"
	"errors"
	"fmt"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
)

// A plan is a view of one version under its options: what an export or a
// stream is about to read.
type plan struct {
	view      *View
	opt       Options
	shape     Shape
	warnings  []string
	forbidden map[string]bool // teachers whose rows are left out
	gallery   *gallery
	tally     tally
	routing   *routing     // of prompts_routed, once checked
	logits    *logitLayout // of distillkit, once checked
	whole     *catalog.Manifest
	checked   error // errUnchecked, or what check found
}

var errUnchecked = errors.New("not checked")

// check runs the view's Check, once.
func (p *plan) check(ctx context.Context, cat *catalog.Catalog) error {
	if p.view.Check != nil && errors.Is(p.checked, errUnchecked) {
		p.checked = p.view.Check(ctx, cat, p.whole, p)
	}
	return p.checked
}

// prepare looks the view up, settles the options and holds the version to the
// terms of its teachers.
func prepare(view string, m *catalog.Manifest, opt Options) (*plan, error) {
	v, err := Lookup(view)
	if err != nil {
		return nil, err
	}
	if err := opt.resolve(v); err != nil {
		return nil, err
	}
	if v.Source && opt.DataSource == "" {
		opt.DataSource = m.Dataset
	}
	p := &plan{view: v, opt: opt, whole: m, gallery: &gallery{kept: map[string][]byte{}, named: map[string]datasets.Image{}}}
	if v.Check != nil {
		p.checked = errUnchecked
	}
	p.forbidden, p.warnings, err = checkTerms(m, v.Reads.teachers(m), "leave those rows out with --leave-out forbidden")
	if err != nil && !opt.LeaveOutForbidden {
		return nil, err
	}
	if p.shape, err = v.Shape(&p.opt); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *plan) about(m *catalog.Manifest) *about {
	a := describe(m, p.view.Name, p.opt, p.warnings)
	a.Terms = termsOf(m, p.view.Reads.teachers(m))
	for id := range p.forbidden { // their rows are left out
		delete(a.Terms, id)
	}
	return a
}

// empty is the error of an export without rows.
func (p *plan) empty() error {
	if n := p.tally.unfit + p.tally.forbidden; n > 0 {
		return fmt.Errorf("%w: all %d rows are left out: %s", ErrNoRows, n, p.tally.words())
	}
	return fmt.Errorf("%w: %s", ErrNoRows, p.view.Reads.none)
}

// errElsewhere is what a Shape's function says of a row that is not of the
// view, such as a prompt of another split. It is no fault of the row.
var errElsewhere = errors.New("row is not of the view")
