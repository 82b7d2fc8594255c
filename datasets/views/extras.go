package views

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Names of options that single views honour, as View.Extra has them.
const (
	extraTag    = "tag"
	extraOwner  = "owner"
	extraLogits = "logits" // vocabulary, tokenizer and top-k
)

// resolveExtras refuses options of single views on others.
func (o *Options) resolveExtras(v *View) error {
	for _, f := range []struct {
		flag, extra string
		set         bool
	}{
		{"tag", extraTag, o.Tag != ""},
		{"owner", extraOwner, len(o.Owners) > 0},
		{"tokenizer and --vocabulary", extraLogits, o.Vocabulary != 0 || o.TokenizerSHA256 != ""},
		{"top-k", extraLogits, o.TopK != 0},
	} {
		if f.set && !slices.Contains(v.Extra, f.extra) {
			return fmt.Errorf("%w option: view %s has no --%s", ErrUnknownView, v.Name, f.flag)
		}
	}
	if o.Tag != "" && !slices.Contains(Tags(), o.Tag) {
		return fmt.Errorf("%w option: --tag takes %s, not %q", ErrUnknownView, strings.Join(Tags(), ", "), o.Tag)
	}
	if o.Vocabulary < 0 || o.Vocabulary > maxVocabulary {
		return fmt.Errorf("%w option: a vocabulary of %d tokens; want 1 to %d", ErrUnknownView, o.Vocabulary, maxVocabulary)
	}
	if o.TopK < 0 || o.TopK > maxTopK {
		return fmt.Errorf("%w option: --top-k %d; want 1 to %d", ErrUnknownView, o.TopK, maxTopK)
	}
	return nil
}

// extraWords names the options of single views.
func (o *Options) extraWords() map[string]string {
	out := map[string]string{}
	if o.Tag != "" {
		out["tag"] = o.Tag
	}
	if o.TopK > 0 {
		out["top_k"] = strconv.Itoa(o.TopK)
	}
	if o.Vocabulary > 0 {
		out["vocabulary"] = strconv.Itoa(o.Vocabulary)
	}
	if o.TokenizerSHA256 != "" {
		out["tokenizer_sha256"] = o.TokenizerSHA256
	}
	var owners []string
	for _, cell := range sortedKeys(o.Owners) {
		owners = append(owners, cell+"="+o.Owners[cell])
	}
	if len(owners) > 0 {
		out["owners"] = strings.Join(owners, " ")
	}
	return out
}
