package views

import (
	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// ViewPromptCompletion is the view of prompts with one completion each, of
// which TRL trains the completion alone.
const ViewPromptCompletion = "prompt_completion"

func init() {
	register(View{
		Name: ViewPromptCompletion, Summary: "prompt and completion: TRL, loss on the answer alone",
		Reads: Rows, Reasoning: trlReasoning, Effort: trlEffort, ToolArgs: trlToolArgs, Images: trlImages,
		Shape: func(opt *Options) (Shape, error) {
			return forTRL(opt, completionShape[MessageOf[string], string], completionShape[MessageOf[JSON], JSON],
				completionShape[ThinkingMessageOf[string], string], completionShape[ThinkingMessageOf[JSON], JSON]), nil
		},
	})
}

// A CompletionOf is a row of the prompt_completion view: the conversation
// before the answer, and the answer.
type CompletionOf[M any, A string | JSON] struct {
	Prompt     []M     `json:"prompt" parquet:"prompt,list"`
	Completion []M     `json:"completion" parquet:"completion,list"`
	Tools      *A      `json:"tools" parquet:"tools,optional"`
	Effort     *string `json:"effort" parquet:"effort,optional,dict"`
}

// The rows of the prompt_completion view with the columns that options add.
type (
	CompletionKwargs[M any, A string | JSON] struct {
		CompletionOf[M, A]
		ChatTemplateKwargs Kwargs `json:"chat_template_kwargs" parquet:"chat_template_kwargs"`
	}
	CompletionImages[M any, A string | JSON] struct {
		CompletionOf[M, A]
		ImageColumn
	}
	CompletionImagesKwargs[M any, A string | JSON] struct {
		CompletionOf[M, A]
		ChatTemplateKwargs Kwargs `json:"chat_template_kwargs" parquet:"chat_template_kwargs"`
		ImageColumn
	}
)

func completionShape[M any, A string | JSON](opt *Options, turn turnOf[M]) Shape {
	prose := "`prompt` holds the conversation before the answer, and `completion` the answer. " + proseOf(opt)
	plain := func(r *datasets.Row) (CompletionOf[M, A], error) { return completion[M, A](r, opt, turn) }
	kwargsOf := func(r *datasets.Row) (CompletionKwargs[M, A], error) {
		k, err := kwargs(r.Effort)
		if err != nil {
			return CompletionKwargs[M, A]{}, of("sample", r.SampleID, err)
		}
		c, err := plain(r)
		return CompletionKwargs[M, A]{c, k}, err
	}
	switch column, asKwargs := opt.Images == ImagesColumn, opt.Effort == EffortKwargs; {
	case column && asKwargs:
		return Of(prose, func(r *datasets.Row) (CompletionImagesKwargs[M, A], error) {
			c, err := kwargsOf(r)
			return CompletionImagesKwargs[M, A]{c.CompletionOf, c.ChatTemplateKwargs, imagesOf(r.Images)}, err
		})
	case column:
		return Of(prose, func(r *datasets.Row) (CompletionImages[M, A], error) {
			c, err := plain(r)
			return CompletionImages[M, A]{c, imagesOf(r.Images)}, err
		})
	case asKwargs:
		return Of(prose, kwargsOf)
	}
	return Of(prose, plain)
}

// completion shapes one row. The loss sees the last turn alone, so a row that
// trains others too does not fit.
func completion[M any, A string | JSON](r *datasets.Row, opt *Options, turn turnOf[M]) (c CompletionOf[M, A], err error) {
	defer func() { err = of("sample", r.SampleID, err) }()
	if err := noImages(r.Images, opt); err != nil {
		return c, err
	}
	if err := oneUser(r.Images, r.Messages); err != nil {
		return c, err
	}
	if !trainedAtEnd(r.Messages) {
		return c, unfit("it trains %s, and the view the last turn of the assistant alone", trainedWords(r.Messages))
	}
	if len(r.Messages) < 2 {
		return c, unfit("it has no prompt before its answer")
	}
	messages, err := prepared(r.Messages, r.Effort, opt)
	if err != nil {
		return c, err
	}
	last := len(messages) - 1
	if c.Prompt, err = turnsOf(messages[:last], turn, false); err != nil {
		return c, err
	}
	if c.Completion, err = turnsOf(messages[last:], turn, false); err != nil {
		return c, err
	}
	c.Effort = effortColumn(r.Effort, opt)
	c.Tools, err = toolsOf[A](r.Tools)
	return c, err
}

// trainedWords says which turns of a row the loss sees.
func trainedWords(messages []chat.Message) string {
	n := 0
	for i := range messages {
		if messages[i].Train {
			n++
		}
	}
	switch {
	case n == 0:
		return "no turn"
	case n == 1 && !messages[len(messages)-1].Train:
		return "a turn that is not its last"
	case n == 1 && messages[len(messages)-1].Role == chat.RoleAssistant:
		return "its last turn alone"
	case n == 1:
		return "a turn that is not the assistant's"
	}
	return plural(n, "turn")
}
