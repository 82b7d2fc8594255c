package teachers_test

import (
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/teachers"
)

func TestFamilies(t *testing.T) {
	for model, want := range map[string]string{
		"gpt-4o-mini": "gpt", "o3-mini": "gpt", "openai/gpt-oss-120b": "gpt", "chatgpt-4o-latest": "gpt",
		"claude-opus-4-1": "claude", "anthropic.claude-3-5-sonnet": "claude", "gemini-2.5-pro": "gemini", "google/gemma-3-27b-it": "gemini",
		"meta-llama/Llama-3.1-8B-Instruct": "llama", "Qwen/Qwen3-235B-A22B": "qwen", "qwen2.5:7b": "qwen", "QwQ-32B": "qwen",
		"deepseek-ai/DeepSeek-R1-Distill-Qwen-7B": "deepseek qwen", "deepseek-r1-distill-llama-70b": "deepseek llama",
		"nvidia/Llama-3_3-Nemotron-Super-49B-v1": "llama nemotron", "kimi-k3": "kimi", "moonshotai/Kimi-K3": "kimi", "moonshot-v1-8k": "kimi",
		"mistral-large-latest": "mistral", "open-mixtral-8x22b": "mistral", "zai-org/GLM-4.5": "glm", "glm4": "glm",
		"microsoft/phi-4": "phi", "Phi3": "phi", "grok-4": "grok", "acme/house-7b": "house", "my-model": "my", "175b_verification": "verification",
		"qwen/unnamed-7b": "qwen", "": "", "/": "", "42": "",
	} {
		if got := strings.Join(teachers.Families(model), " "); got != want {
			t.Errorf("%q: %q, want %q", model, got, want)
		}
	}
	if !teachers.SameFamily(teachers.Families("DeepSeek-R1-Distill-Qwen-7B"), teachers.Families("qwen3")) {
		t.Error("a distilled model is of its base's family")
	}
	if teachers.SameFamily(teachers.Families("gpt-4o"), teachers.Families("claude-opus-4")) || teachers.SameFamily(nil, nil) {
		t.Error("strangers are no family")
	}
}
