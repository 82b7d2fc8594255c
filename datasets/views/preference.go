package views

import (
	"strconv"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// ViewPreference is the view of preference pairs: prompt, chosen and rejected,
// what TRL's DPO, reward and similar trainers read.
const ViewPreference = "preference"

func init() {
	register(View{
		Name: ViewPreference, Summary: "preference pairs: TRL's DPO, reward and similar trainers",
		Reads: Pairs, Reasoning: trlReasoning, Effort: trlEffort, ToolArgs: trlToolArgs, Images: trlImages,
		Shape: func(opt *Options) (Shape, error) {
			return forTRL(opt, preferenceShape[MessageOf[string], string], preferenceShape[MessageOf[JSON], JSON],
				preferenceShape[ThinkingMessageOf[string], string], preferenceShape[ThinkingMessageOf[JSON], JSON]), nil
		},
	})
}

// A PreferenceOf is a row of the preference view, in the conversational form
// with an explicit prompt.
type PreferenceOf[M any, A string | JSON] struct {
	Prompt       []M      `json:"prompt" parquet:"prompt,list"`
	Chosen       []M      `json:"chosen" parquet:"chosen,list"`
	Rejected     []M      `json:"rejected" parquet:"rejected,list"`
	Tools        *A       `json:"tools" parquet:"tools,optional"`
	Margin       *float64 `json:"margin" parquet:"margin,optional"`
	CrossTeacher bool     `json:"cross_teacher" parquet:"cross_teacher"`
	Effort       *string  `json:"effort" parquet:"effort,optional,dict"`
}

// A Preference is a row of the preference view as it is by default.
type Preference = PreferenceOf[Message, string]

// The rows of the preference view with the columns that options add.
type (
	PreferenceKwargs[M any, A string | JSON] struct {
		PreferenceOf[M, A]
		ChatTemplateKwargs Kwargs `json:"chat_template_kwargs" parquet:"chat_template_kwargs"`
	}
	PreferenceImages[M any, A string | JSON] struct {
		PreferenceOf[M, A]
		ImageColumn
	}
	PreferenceImagesKwargs[M any, A string | JSON] struct {
		PreferenceOf[M, A]
		ChatTemplateKwargs Kwargs `json:"chat_template_kwargs" parquet:"chat_template_kwargs"`
		ImageColumn
	}
)

func preferenceShape[M any, A string | JSON](opt *Options, turn turnOf[M]) Shape {
	prose := "`prompt` holds the conversation before the two answers, `chosen` the better one and `rejected` the other. Where `cross_teacher` is true they are of two teachers, and differ in style too. " + proseOf(opt)
	plain := func(p *datasets.Pair) (PreferenceOf[M, A], error) { return preference[M, A](p, opt, turn) }
	kwargsOf := func(p *datasets.Pair) (PreferenceKwargs[M, A], error) {
		k, err := kwargs(p.Effort)
		if err != nil {
			return PreferenceKwargs[M, A]{}, of("task", p.TaskID, err)
		}
		c, err := plain(p)
		return PreferenceKwargs[M, A]{c, k}, err
	}
	switch column, asKwargs := opt.Images == ImagesColumn, opt.Effort == EffortKwargs; {
	case column && asKwargs:
		return Of(prose, func(p *datasets.Pair) (PreferenceImagesKwargs[M, A], error) {
			c, err := kwargsOf(p)
			return PreferenceImagesKwargs[M, A]{c.PreferenceOf, c.ChatTemplateKwargs, imagesOf(p.Images)}, err
		})
	case column:
		return Of(prose, func(p *datasets.Pair) (PreferenceImages[M, A], error) {
			c, err := plain(p)
			return PreferenceImages[M, A]{c, imagesOf(p.Images)}, err
		})
	case asKwargs:
		return Of(prose, kwargsOf)
	}
	return Of(prose, plain)
}

// preference shapes one pair.
func preference[M any, A string | JSON](p *datasets.Pair, opt *Options, turn turnOf[M]) (out PreferenceOf[M, A], err error) {
	defer func() { err = of("task", p.TaskID, err) }()
	if err := noImages(p.Images, opt); err != nil {
		return out, err
	}
	if err := oneUser(p.Images, p.Prompt); err != nil {
		return out, err
	}
	answers := *opt // the effort is told once, before the two answers
	answers.Effort = EffortNone
	for _, side := range []struct {
		from []chat.Message
		to   *[]M
		opt  *Options
	}{{p.Prompt, &out.Prompt, opt}, {p.Chosen, &out.Chosen, &answers}, {p.Rejected, &out.Rejected, &answers}} {
		messages, err := prepared(side.from, p.Effort, side.opt)
		if err != nil {
			return out, err
		}
		if *side.to, err = turnsOf(messages, turn, false); err != nil {
			return out, err
		}
	}
	out.Margin, out.CrossTeacher, out.Effort = p.Margin, p.CrossTeacher, effortColumn(p.Effort, opt)
	out.Tools, err = toolsOf[A](p.Tools)
	return out, err
}

// plural counts things in words.
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}
