package activities

import (
	"encoding/json"

	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/datasets/merge"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
)

// A versionedMethod has a name and a version.
type versionedMethod interface {
	Name() string
	Version() string
}

// methods are what decided what is in a version, in the order in which they
// work.
func (rt *runtime) methods() []catalog.Method {
	var out []catalog.Method
	var add addMethod = func(kind, name, version string, when *recipe.When, options any) {
		m := catalog.Method{Kind: kind, Name: name, Version: version}
		if when != nil {
			m.When = when.String()
		}
		if text, err := json.Marshal(options); err == nil && string(text) != "{}" && string(text) != "null" {
			m.Options = text
		}
		out = append(out, m)
	}
	rt.promptMethods(add)
	rt.checkMethods(add)
	for i, f := range rt.filters {
		version := ""
		if v, ok := f.filter.(versionedMethod); ok {
			version = v.Version()
		}
		add(catalog.MethodFilter, f.filter.Name(), version, f.when, rt.recipe.Filter[i].Options)
	}
	add(catalog.MethodPolicy, rt.policy.Name(), rt.policy.Version(), nil, rt.policyOptions())
	if p := rt.recipe.Pairs; p != nil {
		add(catalog.MethodPairs, "pairs", merge.PairsVersion, nil, fields{
			"margin": p.Margin, "max_per_task": p.MaxPerTask, "max_length_ratio": p.MaxLengthRatio, "teachers": p.Teachers,
		}.said())
	}
	if m := rt.recipe.Mix; m != nil {
		add(catalog.MethodMix, "mix", merge.MixVersion, nil, fields{
			"by": m.By, "alpha": m.Alpha, "most": m.Most, "weights": m.Weights, "total": m.Total, "caps": m.Caps, "seed": rt.recipe.Output.Seed,
		}.said())
	}
	return out
}

// fields are options by name.
type fields map[string]any

// said leaves out what nobody said.
func (f fields) said() fields {
	for name, v := range f {
		switch v := v.(type) {
		case string:
			if v == "" {
				delete(f, name)
			}
		case int:
			if v == 0 {
				delete(f, name)
			}
		case *float64:
			if v == nil {
				delete(f, name)
			}
		case map[string]float64:
			if len(v) == 0 {
				delete(f, name)
			}
		}
	}
	return f
}

// policyOptions are those of the recipe's merge.
func (rt *runtime) policyOptions() fields {
	m := &rt.recipe.Merge
	f := fields{
		"accept": m.Accept, "per_task": m.PerTask, "per_teacher": m.PerTeacher, "answer_duplicates": m.AnswerDuplicates,
		"near_duplicates": m.NearDuplicates, "share": m.Share, "margin": m.Margin, "agree": m.Agree,
	}.said()
	if m.Difficulty != nil {
		d := rt.difficulty()
		f["difficulty"] = fields{"min": d.Min, "max": d.Max}
	}
	return f
}
