package views

import (
	"github.com/stillhouse-data/stillhouse/datasets"
)

// ViewMessages is the view of conversations: what TRL, NeMo-RL and OpenRLHF
// read for supervised fine-tuning.
const ViewMessages = "messages"

// trlReasoning and the others are the options of the views of TRL, the default
// first.
var (
	trlReasoning = []string{ReasoningSeparate, ReasoningInline, ReasoningDrop, ReasoningThinking}
	trlEffort    = []string{EffortColumn, EffortSystem, EffortKwargs, EffortNone}
	trlToolArgs  = []string{ToolArgsText, ToolArgsObject}
	trlImages    = []string{ImagesRefuse, ImagesColumn}
)

func init() {
	register(View{
		Name: ViewMessages, Summary: "conversations: TRL, NeMo-RL, OpenRLHF",
		Reads: Rows, Reasoning: trlReasoning, Effort: trlEffort, ToolArgs: trlToolArgs, Images: trlImages,
		Shape: func(opt *Options) (Shape, error) {
			return forTRL(opt, messagesShape[MessageOf[string], string], messagesShape[MessageOf[JSON], JSON],
				messagesShape[ThinkingMessageOf[string], string], messagesShape[ThinkingMessageOf[JSON], JSON]), nil
		},
	})
}

// forTRL picks the row type of a view of TRL by its options: reasoning names
// the message type, tool arguments what is in it.
func forTRL(opt *Options,
	text func(*Options, turnOf[MessageOf[string]]) Shape, object func(*Options, turnOf[MessageOf[JSON]]) Shape,
	thinkText func(*Options, turnOf[ThinkingMessageOf[string]]) Shape, thinkObject func(*Options, turnOf[ThinkingMessageOf[JSON]]) Shape,
) Shape {
	asObject := opt.ToolArgs == ToolArgsObject
	switch {
	case opt.Reasoning == ReasoningThinking && asObject:
		return thinkObject(opt, thinkingOf[JSON])
	case opt.Reasoning == ReasoningThinking:
		return thinkText(opt, thinkingOf[string])
	case asObject:
		return object(opt, messageOf[JSON])
	}
	return text(opt, messageOf[string])
}

// A ConversationOf is a row of the messages view: the prompt and, last, the
// answer. M is its messages' type, and A that of the declarations of its tools:
// JSON text, encoded once, since a struct that fits all of them would have the
// keys of all.
type ConversationOf[M any, A string | JSON] struct {
	Messages []M     `json:"messages" parquet:"messages,list"`
	Tools    *A      `json:"tools" parquet:"tools,optional"`
	Effort   *string `json:"effort" parquet:"effort,optional,dict"`
}

// A Conversation is a row of the messages view as it is by default.
type Conversation = ConversationOf[Message, string]

// The rows of the messages view with the columns that options add.
type (
	ConversationKwargs[M any, A string | JSON] struct {
		ConversationOf[M, A]
		ChatTemplateKwargs Kwargs `json:"chat_template_kwargs" parquet:"chat_template_kwargs"`
	}
	ConversationImages[M any, A string | JSON] struct {
		ConversationOf[M, A]
		ImageColumn
	}
	ConversationImagesKwargs[M any, A string | JSON] struct {
		ConversationOf[M, A]
		ChatTemplateKwargs Kwargs `json:"chat_template_kwargs" parquet:"chat_template_kwargs"`
		ImageColumn
	}
)

func messagesShape[M any, A string | JSON](opt *Options, turn turnOf[M]) Shape {
	prose := "`messages` holds the prompt and, last, the answer. " + proseOf(opt)
	plain := func(r *datasets.Row) (ConversationOf[M, A], error) { return conversation[M, A](r, opt, turn) }
	kwargsOf := func(r *datasets.Row) (ConversationKwargs[M, A], error) {
		k, err := kwargs(r.Effort)
		if err != nil {
			return ConversationKwargs[M, A]{}, of("sample", r.SampleID, err)
		}
		c, err := plain(r)
		return ConversationKwargs[M, A]{c, k}, err
	}
	switch column, asKwargs := opt.Images == ImagesColumn, opt.Effort == EffortKwargs; {
	case column && asKwargs:
		return Of(prose, func(r *datasets.Row) (ConversationImagesKwargs[M, A], error) {
			c, err := kwargsOf(r)
			return ConversationImagesKwargs[M, A]{c.ConversationOf, c.ChatTemplateKwargs, imagesOf(r.Images)}, err
		})
	case column:
		return Of(prose, func(r *datasets.Row) (ConversationImages[M, A], error) {
			c, err := plain(r)
			return ConversationImages[M, A]{c, imagesOf(r.Images)}, err
		})
	case asKwargs:
		return Of(prose, kwargsOf)
	}
	return Of(prose, plain)
}

// conversation shapes one row.
func conversation[M any, A string | JSON](r *datasets.Row, opt *Options, turn turnOf[M]) (c ConversationOf[M, A], err error) {
	defer func() { err = of("sample", r.SampleID, err) }()
	if err := noImages(r.Images, opt); err != nil {
		return c, err
	}
	if err := oneUser(r.Images, r.Messages); err != nil {
		return c, err
	}
	messages, err := prepared(r.Messages, r.Effort, opt)
	if err != nil {
		return c, err
	}
	if c.Messages, err = turnsOf(messages, turn, !trainedAsUsual(r.Messages)); err != nil {
		return c, err
	}
	c.Effort = effortColumn(r.Effort, opt)
	c.Tools, err = toolsOf[A](r.Tools)
	return c, err
}
