package teachers

import (
	"slices"
	"strings"
	"unicode"
)

// families are words in the names of models, with the family that each tells.
// Models of one family are trained on each other's answers, or on the same
// ones, and favour what reads like themselves.
var families = map[string]string{
	"gpt": "gpt", "chatgpt": "gpt", "o1": "gpt", "o3": "gpt", "o4": "gpt", "davinci": "gpt", "codex": "gpt",
	"claude": "claude", "opus": "claude", "sonnet": "claude", "haiku": "claude",
	"gemini": "gemini", "gemma": "gemini", "medgemma": "gemini", "learnlm": "gemini", "palm": "gemini",
	"llama": "llama", "codellama": "llama", "tinyllama": "llama", "alpaca": "llama", "vicuna": "llama", "nemotron": "nemotron",
	"qwen": "qwen", "qwq": "qwen", "qvq": "qwen", "qwopus": "qwen",
	"deepseek": "deepseek", "kimi": "kimi", "moonshot": "kimi", "moonlight": "kimi",
	"mistral": "mistral", "mixtral": "mistral", "ministral": "mistral", "magistral": "mistral", "codestral": "mistral", "devstral": "mistral", "pixtral": "mistral",
	"glm": "glm", "chatglm": "glm", "codegeex": "glm", "phi": "phi", "grok": "grok", "command": "command", "aya": "command",
	"minimax": "minimax", "mimo": "mimo", "ernie": "ernie", "hunyuan": "hunyuan", "yi": "yi", "internlm": "internlm", "internvl": "internlm",
	"olmo": "olmo", "olmoe": "olmo", "tulu": "tulu", "granite": "granite", "falcon": "falcon", "smollm": "smollm", "jamba": "jamba",
	"nova": "nova", "doubao": "seed", "seed": "seed", "step": "step", "baichuan": "baichuan", "solar": "solar", "exaone": "exaone", "apertus": "apertus",
}

// Families are the families that a model's name tells, sorted: those of all its
// known words, so that a distilled model such as DeepSeek-R1-Distill-Qwen-7B has
// two, or else the first word of the name. The maker before a slash counts where
// nothing after it is known. "" has none.
func Families(model string) []string {
	parts := strings.Split(strings.ToLower(model), "/")
	for i := len(parts) - 1; i >= 0; i-- {
		var found []string
		for _, word := range familyWords(parts[i]) {
			if f := families[word]; f != "" && !slices.Contains(found, f) {
				found = append(found, f)
			}
		}
		if len(found) > 0 {
			slices.Sort(found)
			return found
		}
	}
	for _, word := range familyWords(parts[len(parts)-1]) {
		if len(word) > 1 { // the b of 7b is no name
			return []string{word}
		}
	}
	return nil
}

// familyWords are the words of a name, without the numbers at their ends: those
// of qwen2.5-7b are qwen and b. A word that is known with its number stays whole.
func familyWords(name string) []string {
	var out []string
	for _, word := range strings.FieldsFunc(name, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		if families[word] == "" {
			word = strings.TrimFunc(word, unicode.IsDigit)
			if i := strings.IndexFunc(word, unicode.IsDigit); i > 0 {
				word = word[:i]
			}
		}
		if word != "" {
			out = append(out, word)
		}
	}
	return out
}

// SameFamily tells whether two models have a family in common.
func SameFamily(a, b []string) bool {
	return slices.ContainsFunc(a, func(f string) bool { return slices.Contains(b, f) })
}
