package filter

import (
	"strings"
	"unicode/utf8"

	"github.com/stillhouse-data/stillhouse/datasets/internal/options"
)

// ReasonControlTokens is the reason of the control_tokens filter.
const ReasonControlTokens = "control_tokens"

// controlTokens keeps answers without markers of chat templates: a trainer's
// tokenizer may take one for the end of a turn or for the beginning of another
// one's, wherever it stands, so that code and quotations count too.
type controlTokens struct{ allow []string }

func newControlTokens(o *options.Set) Filter {
	return &controlTokens{allow: texts(o, "allow", maxNames)}
}

func (*controlTokens) Name() string    { return "control_tokens" }
func (*controlTokens) Version() string { return "1" }

func (f *controlTokens) Reject(in *Input) string {
	m := in.message()
	if f.holds(in.Candidate.Content()) || f.holds(in.reasoning()) {
		return ReasonControlTokens
	}
	for i := range m.ToolCalls {
		if f.holds(m.ToolCalls[i].Name) || f.holds(m.ToolCalls[i].Arguments) {
			return ReasonControlTokens
		}
	}
	return ""
}

func (f *controlTokens) holds(text string) bool {
	for _, word := range f.allow {
		if strings.Contains(text, word) {
			text = strings.ReplaceAll(text, word, " ")
		}
	}
	return hasControlTokens(text)
}

// templateMarkers are the special tokens of chat templates that do not have
// the form <|…|>: of Llama 2 and Mistral, Gemma, DeepSeek, Qwen's and Hermes'
// tools, GLM, Baichuan, Cohere, T5 and the sentence-piece vocabularies.
var templateMarkers = [...]string{
	"[INST]", "[/INST]", "<<SYS>>", "<</SYS>>",
	"[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_CALLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]",
	"<start_of_turn>", "<end_of_turn>", "<start_of_image>", "<end_of_image>",
	"<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>",
	"[gMASK]", "[sMASK]", "<sop>", "<eop>",
	"<BOS_TOKEN>", "<EOS_TOKEN>", "<bos>", "<eos>", "[BOS]", "[EOS]",
	"<｜", "｜>", "[|Human|]", "[|AI|]", "◁|",
}

// markerStarts are the characters that a marker begins with.
const markerStarts = "<[｜◁"

// hasControlTokens tells whether a text holds a marker.
func hasControlTokens(text string) bool {
	for rest := text; ; {
		at := strings.IndexAny(rest, markerStarts)
		if at < 0 {
			return endsInMarker(text)
		}
		rest = rest[at:]
		for _, marker := range templateMarkers {
			if strings.HasPrefix(rest, marker) {
				return true
			}
		}
		if n := barToken(rest); n > 0 || numberedToken(rest) {
			return true
		}
		_, size := utf8.DecodeRuneInString(rest)
		rest = rest[size:]
	}
}

// longestBarToken bounds the name within <|…|>, in bytes.
const longestBarToken = 64

// barToken is the length of the token of the form <|name|> that a text begins
// with, 0 for none. A name is made of letters, digits and signs of words:
// "<| x |>" is an operator of some language.
func barToken(text string) int {
	name, ok := strings.CutPrefix(text, "<|")
	if !ok {
		return 0
	}
	for i := 0; i < len(name) && i < longestBarToken; i++ {
		switch c := name[i]; {
		case c == '|':
			if i > 0 && i+1 < len(name) && name[i+1] == '>' {
				return 2 + i + 2
			}
			return 0
		case c|0x20 >= 'a' && c|0x20 <= 'z', c >= '0' && c <= '9', c == '_', c == '-', c == '.', c == '/', c == ':':
		default:
			return 0
		}
	}
	return 0
}

// numberedToken tells whether a text begins with an unused or reserved token of
// a vocabulary, such as <unused12>, <reserved_106> or <extra_id_0>, or with the
// token of a byte, such as <0x0A>.
func numberedToken(text string) bool {
	for _, prefix := range [...]string{"<unused", "<reserved_", "<extra_id_"} {
		if rest, ok := strings.CutPrefix(text, prefix); ok {
			digits := strings.TrimLeft(rest, "0123456789")
			return len(digits) < len(rest) && len(rest)-len(digits) <= 6 && strings.HasPrefix(digits, ">")
		}
	}
	return len(text) >= 6 && text[:3] == "<0x" && isHex(text[3]) && isHex(text[4]) && text[5] == '>'
}

func isHex(c byte) bool { return c >= '0' && c <= '9' || c >= 'A' && c <= 'F' }

// endsInMarker tells whether a text ends in the end-of-text token of the
// sentence-piece vocabularies, or begins with its counterpart: elsewhere <s> is
// the tag of struck-out text.
func endsInMarker(text string) bool {
	text = strings.TrimSpace(text)
	return strings.HasPrefix(text, "<s>") && !strings.Contains(text, "</s>") ||
		strings.HasSuffix(text, "</s>") && !strings.Contains(text, "<s>") ||
		strings.HasPrefix(text, "<pad>") || strings.HasSuffix(text, "<pad>")
}
