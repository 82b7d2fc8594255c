package render

import (
	"strings"
	"testing"
)

func distillkitInput() Input {
	in := viewInput("distillkit", "parquet", 100)
	in.View.Files = in.View.Files[:2]
	delete(in.View.Rows, "test")
	in.Beside = map[string][]byte{compressionFile: []byte("# packed\nd: 163840\nk: 20\nexact_k: 20\nexact_dtype: float32\npolynomial_terms: null\nterm_dtype: float32\nresidual_bins: []\ndelta_encoding: false\nerror_diffusion: false\nnormalize_t: false\n")}
	return in
}

func TestDistillKit(t *testing.T) {
	in := distillkitInput()
	in.Params = map[string]any{"training_args": map[string]any{"learning_rate": 1e-6, "max_steps": 2}, "use_flash_attention": false}
	goldenWhole(t, "distillkit", mustRender(t, TrainerDistillKit, "", in))

	in.Seed = 0
	if text := string(mustRender(t, TrainerDistillKit, "", in).Files[0].Data); !strings.Contains(text, "  seed: 1\n") {
		t.Errorf("by seed 0 nothing is shuffled:\n%s", text)
	}
	refuses(t, TrainerDistillKit, "", distillkitInput, []refusal{
		{"has no compression_config.yaml", func(in *Input) { in.Beside = nil }},
		{"compression_config.yaml: has no exact_k", func(in *Input) { in.Beside[compressionFile] = []byte("d: 1\nk: 1\n") }},
		{"compression_config.yaml: ", func(in *Input) { in.Beside[compressionFile] = []byte("{") }},
		{"tokens, not messages", func(in *Input) { in.Student.ChatTemplate = "x.jinja" }},
		{"set student.max_length", func(in *Input) { in.Student.MaxLength = 0 }},
		{"probabilities would be dropped", params("training_args.remove_unused_columns", true)},
		{"HF_TOKEN", params("training_args", map[string]any{"hub_token": "x"})},
		{"did you mean loss_functions", params("loss_function", []any{})},
		{"knows no such key", params("teacher.logprob_compressor.k", 5)},
	})
}
