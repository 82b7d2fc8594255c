package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/recipe"
	"github.com/stillhouse-data/stillhouse/internal/wire"
	"github.com/stillhouse-data/stillhouse/training/render"
)

// RecipeHandOff is the hand-off that a recipe asks for, of the version that its
// build published.
func (a *Activities) RecipeHandOff(ctx context.Context, in wire.HandOffRequest) (*wire.HandOffStart, error) {
	rt, err := a.runtime(ctx, in.BuildRef)
	if err != nil {
		return nil, final(err)
	}
	out, err := HandOffOf(rt.recipe, in.Version)
	if err != nil {
		return nil, final(err)
	}
	id, err := wire.HandOffID(*out)
	return &wire.HandOffStart{HandOffInput: *out, ID: id}, final(err)
}

// HandOffOf is the hand-off of a version that a recipe asks for.
func HandOffOf(r *recipe.Recipe, version int64) (*wire.HandOffInput, error) {
	h, s := r.Handoff, r.Student
	if h == nil || s == nil {
		return nil, invalidRecipe("the recipe hands nothing over")
	}
	options, err := json.Marshal(HandOffOptions{
		Method: h.Method, View: h.View, Tokenizer: s.Tokenizer, ChatTemplate: s.ChatTemplate, MaxLength: s.MaxLength,
		Params: h.Params, LeaveOutUnfit: h.LeaveOutUnfit,
	})
	if err != nil {
		return nil, err
	}
	return &wire.HandOffInput{
		Ref: fmt.Sprintf("%s@%d", r.Name, version), Trainer: h.Trainer, Launcher: h.Launcher, Command: h.Command,
		Model: s.Model, Attempt: 1, Env: h.Env, Options: string(options), Timeout: int64(h.Timeout / time.Second),
	}, nil
}

// checkHandOff refuses a recipe whose hand-off could not be rendered, before its
// teachers are asked.
func checkHandOff(r *recipe.Recipe) error {
	h := r.Handoff
	if h == nil {
		return nil
	}
	if _, err := render.ViewFor(h.Trainer, h.Method, h.View, h.Params); err != nil {
		return r.ErrorAt("handoff.trainer", err.Error(), "")
	}
	if h.Timeout < 0 || h.Timeout > 0 && h.Timeout < time.Second {
		return r.ErrorAt("handoff.timeout", "no training ends that soon", "")
	}
	return nil
}
