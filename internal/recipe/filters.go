package recipe

import (
	"reflect"
	"slices"

	"github.com/goccy/go-yaml/ast"
)

// filterNames are the filters of the contract.
var filterNames = []string{"finish", "empty", "refusal", "identity", "think", "control_tokens", "repetition", "length", "language", "pii", "expr"}

// filterOptions declare the options of each filter. Their values are checked
// against these declarations and handed on as they stand: what is absent has
// the default that the filter gives it.
var filterOptions = map[string]reflect.Type{
	"finish":         reflect.TypeFor[PlainStep](),
	"empty":          reflect.TypeFor[PlainStep](),
	"refusal":        reflect.TypeFor[RefusalStep](),
	"identity":       reflect.TypeFor[IdentityStep](),
	"think":          reflect.TypeFor[ThinkStep](),
	"control_tokens": reflect.TypeFor[ControlTokensStep](),
	"repetition":     reflect.TypeFor[RepetitionStep](),
	"length":         reflect.TypeFor[LengthStep](),
	"language":       reflect.TypeFor[LanguageStep](),
	"pii":            reflect.TypeFor[PIIStep](),
	"expr":           reflect.TypeFor[ExprStep](),
}

// A PlainStep is a filter without options.
type PlainStep struct {
	// Which candidates it applies to; the same as when beside the name.
	When *When `yaml:"when"`
}

// A RefusalStep rejects answers that decline.
type RefusalStep struct {
	// Whether an answer that declines at first and then helps is one too.
	Hedged bool `yaml:"hedged"`
	// Which candidates it applies to; the same as when beside the name.
	When *When `yaml:"when"`
}

// An IdentityStep rejects answers that give the teacher away.
type IdentityStep struct {
	// Names of models and makers that an answer may claim, such as the student's.
	Allow []string `yaml:"allow"`
	// Whether phrases about where the model's knowledge ends are rejected; true where absent.
	Cutoff *bool `yaml:"cutoff"`
	// Whether "as an AI language model" is rejected, whoever made it.
	Assistant bool `yaml:"assistant"`
	// Which candidates it applies to; the same as when beside the name.
	When *When `yaml:"when"`
}

// A ThinkStep rejects answers whose reasoning is not whole.
type ThinkStep struct {
	// Whether an answer without reasoning is rejected.
	Required bool `yaml:"required"`
	// Which candidates it applies to; the same as when beside the name.
	When *When `yaml:"when"`
}

// A ControlTokensStep rejects answers with markers of chat templates.
type ControlTokensStep struct {
	// Markers that may stand in an answer.
	Allow []string `yaml:"allow"`
	// Which candidates it applies to; the same as when beside the name.
	When *When `yaml:"when"`
}

// A RepetitionStep rejects answers that go on.
type RepetitionStep struct {
	// How often a paragraph may not come; 10 where absent.
	Paragraphs int `yaml:"paragraphs" min:"2"`
	// How often a sentence may not come in a row; 4 where absent.
	Consecutive int `yaml:"consecutive" min:"2"`
	// How often a sentence may not come altogether; 40 where absent.
	Total int `yaml:"total" min:"2"`
	// Whether a few characters over and over are rejected; true where absent.
	Loop *bool `yaml:"loop"`
	// Whether Gopher's limits for web pages hold as well.
	Gopher bool `yaml:"gopher"`
	// Which candidates it applies to; the same as when beside the name.
	When *When `yaml:"when"`
}

// A LengthStep rejects answers by their length in tokens, reasoning included.
type LengthStep struct {
	// Fewest tokens of an answer.
	MinTokens int `yaml:"min_tokens" min:"0"`
	// Most tokens of an answer.
	MaxTokens int `yaml:"max_tokens" min:"1"`
	// Least ratio to the median of the whole answers to tasks of the same domain and effort, such as 0.1.
	MinRatio *float64 `yaml:"min_ratio" min:"0" max:"0.99"`
	// Greatest ratio to that median, such as 4.
	MaxRatio *float64 `yaml:"max_ratio" min:"1"`
	// Answers without which there is no median to go by; 8 where absent.
	MinAnswers int `yaml:"min_answers" min:"1"`
	// Which candidates it applies to; the same as when beside the name.
	When *When `yaml:"when"`
}

// A LanguageStep rejects answers in another language than the prompt's.
type LanguageStep struct {
	// Languages (ISO 639-1) that answers may be in, whatever the prompt's.
	Languages []string `yaml:"languages"`
	// Share of an answer's letters, in scripts that the prompt has none of, from which on it is rejected; 0.2 where absent, 1 rejects nothing.
	Mixed *float64 `yaml:"mixed" min:"0.01" max:"1"`
	// Whether the reasoning has to be in that language too.
	Reasoning bool `yaml:"reasoning"`
	// Which candidates it applies to; the same as when beside the name.
	When *When `yaml:"when"`
}

// A PIIStep finds what may identify a person or open a door.
type PIIStep struct {
	// What happens then: drop rejects the answer, mask keeps it with [EMAIL] and the like in its place.
	Action string `yaml:"action" enum:"drop,mask" default:"drop"`
	// What is looked for: key, email, card, phone, ip; all of them where absent.
	Kinds []string `yaml:"kinds"`
	// Parts of what may stay, such as a domain of your own.
	Allow []string `yaml:"allow"`
	// Which candidates it applies to; the same as when beside the name.
	When *When `yaml:"when"`
}

// An ExprStep keeps the candidates for which an expression holds.
type ExprStep struct {
	// Expression that holds for what is kept.
	Keep *When `yaml:"keep" required:"true"`
	// Word of your own for what is rejected; the reject reason is expr:<word>.
	Reason string `yaml:"reason" pattern:"^[a-z0-9][a-z0-9_.-]{0,62}$"`
	// Which candidates it applies to; the same as when beside the name.
	When *When `yaml:"when"`
}

// decodeFilterOptions reads the options of the filter that a step names.
func (d *decoder) decodeFilterOptions(e entry, step *FilterStep, path string) {
	value := d.enter(e.value, path)
	declared, known := filterOptions[step.Name]
	if step.Name == "expr" && value != nil && isText(value) {
		d.decode(e.value, reflect.ValueOf(&step.Expr).Elem(), path, nil)
		step.Options = map[string]any{"keep": step.Expr.String()}
		return
	}
	if value == nil || value.Type() == ast.NullType || !known {
		d.decodeStepOptions(e, step, path)
		return
	}
	before := len(d.errs)
	options := reflect.New(declared).Elem()
	d.decode(e.value, options, path, nil)
	if when, _ := options.FieldByName("When").Interface().(*When); when != nil {
		step.When = when
	}
	if x, ok := options.Interface().(ExprStep); ok {
		step.Expr, step.Reason = x.Keep, x.Reason
		step.Options = map[string]any{"keep": step.Expr.String()}
		if x.Reason != "" {
			step.Options["reason"] = x.Reason
		}
		return
	}
	if len(d.errs) == before {
		d.decodeStepOptions(e, step, path)
	}
}

// filters checks what is known of the filters without making them.
func (c *checker) filters() {
	for i := range c.r.Filter {
		f := &c.r.Filter[i]
		path := indexed("filter", i)
		switch {
		case !slices.Contains(filterNames, f.Name):
			c.fault(path, "unknown filter "+quote(f.Name), didYouMean(f.Name, filterNames))
		case f.Name == "expr" && f.Expr == nil:
			c.fault(path, "expr has no expression", "write what is to be kept, such as {expr: 'len(content) > 10'}")
		case f.Name == "length" && len(f.Options) == 0:
			c.fault(path, "length has no limit", "write one, such as {length: {max_tokens: 16000}}")
		}
	}
}
