package views

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets/catalog"
)

// Where the reasoning of an answer goes.
const (
	ReasoningSeparate = "separate" // a key of its own in the message
	ReasoningInline   = "inline"   // between tags, before the content
	ReasoningDrop     = "drop"
	ReasoningThinking = "thinking" // a key of its own that is called thinking
)

// Where the effort of a task goes.
const (
	EffortColumn = "column" // a column of the row
	EffortSystem = "system" // a line in the system message
	EffortKwargs = "kwargs" // chat_template_kwargs of the row
	EffortNone   = "none"
)

// What the arguments of tool calls and the declarations of tools are.
const (
	ToolArgsText   = "text"   // JSON text, encoded once
	ToolArgsObject = "object" // JSON objects
)

// What becomes of images.
const (
	ImagesRefuse = "refuse" // a row that has some does not fit
	ImagesColumn = "column" // their bytes in Parquet, files beside JSON Lines
)

// DefaultThinkTag is the tag of inline reasoning, without its brackets.
const DefaultThinkTag = "think"

// Options of an export. The zero value is right, save that the card then
// names no version: each option that is empty has the view's own default.
type Options struct {
	Version catalog.Version // that the manifest belongs to
	Form    string          // Parquet (the default), JSONL or Arrow

	Reasoning string // ReasoningSeparate, ReasoningInline or ReasoningDrop
	ThinkTag  string // of inline reasoning; DefaultThinkTag
	Effort    string // EffortColumn, EffortSystem, EffortKwargs or EffortNone
	ToolArgs  string // ToolArgsText or ToolArgsObject
	Images    string // ImagesRefuse or ImagesColumn
	// MaskHistory is for trainers that mask by the dataset and not by the turn:
	// the rows are those of which the last turn alone is trained, and the
	// trainer is set to train that one.
	MaskHistory bool
	// DataSource is what the rows of verl_rl name as their data_source, by
	// which verl picks the reward function; the dataset's name by default.
	DataSource string

	// Tag is a further column of prompts_routed that holds the teacher, where a
	// trainer looks for it under another name; one of Tags.
	Tag string
	// Owners names the teacher of tasks of prompts_routed, by "domain/effort",
	// "domain" or "*", where the recipe leaves it open.
	Owners map[string]string
	// Vocabulary is the size of the vocabulary of distillkit's token ids, and
	// TokenizerSHA256 the digest of the tokenizer that they must be of; 0 and ""
	// take what the rows say.
	Vocabulary      int
	TokenizerSHA256 string
	// TopK is how many alternatives a token of distillkit has; 0 takes as many
	// as every row has.
	TopK int

	// LeaveOutForbidden leaves out the rows of teachers whose terms forbid
	// training, instead of refusing the export.
	LeaveOutForbidden bool
	// LeaveOutUnfit leaves out the rows that the view can't hold, instead of
	// refusing the export.
	LeaveOutUnfit bool
}

// thinkTag is what a tag may be: it ends up in text that a model learns.
var thinkTag = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.:|-]{0,63}$`)

// resolve fills the options' defaults for a view and refuses what it does not
// honour.
func (o *Options) resolve(v *View) error {
	if o.Form == "" {
		o.Form = Parquet
	}
	if err := knownForm(o.Form); err != nil {
		return err
	}
	for _, f := range []struct {
		name  string
		value *string
		all   []string
	}{
		{"reasoning", &o.Reasoning, v.Reasoning},
		{"effort", &o.Effort, v.Effort},
		{"tool-args", &o.ToolArgs, v.ToolArgs},
		{"images", &o.Images, v.Images},
	} {
		switch {
		case *f.value == "" && len(f.all) > 0:
			*f.value = f.all[0]
		case *f.value == "":
		case len(f.all) == 0:
			return fmt.Errorf("%w option: view %s has no --%s", ErrUnknownView, v.Name, f.name)
		case !slices.Contains(f.all, *f.value):
			return fmt.Errorf("%w option: view %s takes --%s %s, not %q", ErrUnknownView, v.Name, f.name, strings.Join(f.all, ", "), *f.value)
		}
	}
	if err := o.resolveExtras(v); err != nil {
		return err
	}
	if o.MaskHistory && !v.History {
		return fmt.Errorf("%w option: view %s has no --mask-history: its rows say of each turn whether it is trained", ErrUnknownView, v.Name)
	}
	if o.DataSource != "" && !v.Source {
		return fmt.Errorf("%w option: view %s has no --data-source", ErrUnknownView, v.Name)
	}
	return o.resolveTag(v)
}

func (o *Options) resolveTag(v *View) error {
	if o.ThinkTag == "" {
		if o.Reasoning == ReasoningInline {
			o.ThinkTag = DefaultThinkTag
		}
		return nil
	}
	if o.Reasoning != ReasoningInline {
		return fmt.Errorf("%w option: --think-tag is of --reasoning inline, and view %s has --reasoning %s here", ErrUnknownView, v.Name, o.Reasoning)
	}
	if !thinkTag.MatchString(o.ThinkTag) {
		return fmt.Errorf("%w option: --think-tag %q is no tag; write its name alone, such as %s: a letter, then at most 63 letters, digits and _ . : | -", ErrUnknownView, o.ThinkTag, DefaultThinkTag)
	}
	return nil
}

// words names the options that an export was made with, for its identity and
// its manifest.
func (o *Options) words() map[string]string {
	out := map[string]string{}
	for name, value := range map[string]string{
		"reasoning": o.Reasoning, "think_tag": o.ThinkTag, "effort": o.Effort, "tool_args": o.ToolArgs, "images": o.Images,
		"data_source": o.DataSource,
	} {
		if value != "" {
			out[name] = value
		}
	}
	maps.Copy(out, o.extraWords())
	if o.MaskHistory {
		out["mask_history"] = "true"
	}
	if o.LeaveOutForbidden {
		out["leave_out_forbidden"] = "true"
	}
	if o.LeaveOutUnfit {
		out["leave_out_unfit"] = "true"
	}
	return out
}
