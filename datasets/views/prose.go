package views

import "fmt"

// proseOf says in a card where reasoning, effort, tools and images are.
func proseOf(opt *Options) string {
	var s string
	switch opt.Reasoning {
	case ReasoningSeparate:
		s = "The reasoning is in `reasoning_content`."
	case ReasoningThinking:
		s = "The reasoning is in `thinking`."
	case ReasoningInline:
		s = fmt.Sprintf("The reasoning stands before the content, between <%[1]s> and </%[1]s>.", opt.ThinkTag)
	case ReasoningDrop:
		s = "The reasoning is left out."
	}
	switch opt.Effort {
	case EffortColumn:
		s += " `effort` is that of the task."
	case EffortSystem:
		s += " The effort of the task is the last line of the system message."
	case EffortKwargs:
		s += " `chat_template_kwargs` holds the effort of the task, for the chat template."
	}
	s += " What a message does not have is null."
	if opt.ToolArgs == ToolArgsObject {
		s += " `tools` and the arguments of tool calls are JSON: values in JSON Lines, and text in Parquet that the datasets library reads as values."
	} else {
		s += " `tools` and the arguments of tool calls are JSON text."
	}
	if opt.Images == ImagesColumn {
		s += " `images` are those of the prompt, which the trainer shows in the first turn of the user."
	}
	return s
}
