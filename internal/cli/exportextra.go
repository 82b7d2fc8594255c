package cli

import (
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/stillhouse-data/stillhouse/datasets/views"
)

// An extraExport is the flags of export that single views have.
type extraExport struct {
	owners    []string
	tokenizer string
}

// add declares the flags.
func (e *extraExport) add(flags *pflag.FlagSet, o *views.Options) {
	flags.StringVar(&o.Tag, "tag", "", "prompts_routed: a further column with the teacher, where a trainer looks for it: "+strings.Join(views.Tags(), ", "))
	flags.StringArrayVar(&e.owners, "owner", nil, "prompts_routed: DOMAIN/EFFORT=TEACHER, DOMAIN=TEACHER or '*=TEACHER', where the recipe leaves it open; may be repeated")
	flags.StringVar(&e.tokenizer, "tokenizer", "", "distillkit: tokenizer.json of the teacher")
	flags.IntVar(&o.Vocabulary, "vocabulary", 0, "distillkit: size of the vocabulary, instead of --tokenizer")
	flags.IntVar(&o.TopK, "top-k", 0, "distillkit: alternatives of a token; as many as every answer has where absent")
}

// settle puts them into the options.
func (e *extraExport) settle(o *views.Options) error {
	for _, owner := range e.owners {
		of, teacher, ok := strings.Cut(owner, "=")
		if !ok || of == "" || teacher == "" {
			return usage("--owner %s: want DOMAIN/EFFORT=TEACHER, DOMAIN=TEACHER or '*=TEACHER'", owner)
		}
		if o.Owners == nil {
			o.Owners = map[string]string{}
		}
		o.Owners[of] = teacher
	}
	if e.tokenizer == "" {
		return nil
	}
	if o.Vocabulary != 0 {
		return usage("--tokenizer says the size of the vocabulary; leave --vocabulary out")
	}
	f, err := os.Open(e.tokenizer)
	if err != nil {
		return usage("--tokenizer: %v", err)
	}
	defer f.Close()
	digest, size, err := views.ReadTokenizer(f)
	if err != nil {
		return usage("--tokenizer %s: %v", e.tokenizer, err)
	}
	o.TokenizerSHA256, o.Vocabulary = digest, size
	return nil
}
