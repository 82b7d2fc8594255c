package activities

import (
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/datasets/dedup"
	"github.com/stillhouse-data/stillhouse/datasets/dedup/contamination"
	"github.com/stillhouse-data/stillhouse/datasets/verify"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
)

// addMethod takes one method.
type addMethod func(kind, name, version string, when *recipe.When, options any)

// checkMethods are the verifiers, and how they are combined.
func (rt *runtime) checkMethods(add addMethod) {
	if rt.check == nil {
		return
	}
	var walk func(k *check, options any)
	walk = func(k *check, options any) {
		version := verify.CombineVersion
		switch {
		case k.verifier != nil:
			version = k.verifier.Version()
		case k.paid != nil:
			version = k.paid.Version()
		}
		add(catalog.MethodVerifier, k.name(), version, k.when, options)
		for _, m := range k.members {
			walk(m, m.options)
		}
	}
	for i, k := range rt.check.members {
		walk(k, rt.recipe.Check[i].Options)
	}
}

// promptMethods are the filters of prompts.
func (rt *runtime) promptMethods(add addMethod) {
	for i := range rt.recipe.PromptFilter {
		s := &rt.recipe.PromptFilter[i]
		version, options := dedup.ExactVersion, any(nil)
		switch {
		case s.NearDuplicate != nil:
			version, options = dedup.NearVersion, s.NearDuplicate
		case s.Contamination != nil:
			version, options = contamination.Version, s.Contamination
		}
		add(catalog.MethodPromptFilter, s.Name, version, s.When, options)
	}
}
