package recipe

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// APIs of teachers.
const (
	APIOpenAI         = "openai"
	APIAnthropic      = "anthropic"
	APIOpenAIBatch    = "openai-batch"
	APIAnthropicBatch = "anthropic-batch"
	APIRecorded       = "recorded"
)

// A Teacher is an endpoint with a model, its parameters, limits and prices, and
// what it is asked about; or answers that were recorded before.
type Teacher struct {
	// Name in tables and reports; the model where absent, with '-' for characters that an id may not have.
	ID string `yaml:"id"`
	// Protocol that it speaks; recorded reads answers from files.
	API string `yaml:"api" enum:"openai,anthropic,openai-batch,anthropic-batch,recorded" default:"openai"`
	// Endpoint's address up to and with its version, such as https://host/v1.
	BaseURL string `yaml:"base_url"`
	// Model's name, as the endpoint calls it.
	Model string `yaml:"model"`
	// Family of the model, such as qwen; guessed from its name where absent. A judge of the same family as whom it judges is flagged.
	Family string `yaml:"family" pattern:"^[a-z0-9][a-z0-9._-]{0,62}$"`
	// Further names under which that model may answer, such as a file's; an answer of any other is flagged as model_drift.
	AnswersAs []string `yaml:"answers_as"`
	// Environment variable that holds the key; the key itself is never written here.
	APIKeyEnv string `yaml:"api_key_env"`
	// File that holds the key, an absolute path or ~/…, readable by its owner alone; read where the teacher is asked.
	APIKeyFile string `yaml:"api_key_file"`
	// Secret in the AWS Secrets Manager that holds the key: a name or an ARN, and #member where the secret is a JSON object.
	APIKeySecret string `yaml:"api_key_secret"`
	// What answers are kept under, instead of the address; needed for loopback and private addresses on a shared store.
	Identity string `yaml:"identity"`
	// Raised to ask everything anew.
	Epoch int `yaml:"epoch" min:"0" max:"999999" default:"0"`
	// What it is asked about; everything where absent.
	Serves []Serve `yaml:"serves"`
	// Request parameters, passed through as they are.
	Params map[string]any `yaml:"params"`
	// Request parameters laid over params.
	ParamsBy ParamsBy `yaml:"params_by"`
	// How its endpoint differs from others: the name of one that is known, or changes to it; guessed from the address where absent.
	Profile Profile `yaml:"profile"`
	// Request headers; keys do not belong here.
	Headers map[string]string `yaml:"headers"`
	// Limits of what is sent to it and taken from it.
	Limits Limits `yaml:"limits"`
	// Prices; without them its asks are counted as unpriced.
	Price *Price `yaml:"price"`
	// How its batch API is used, for openai-batch and anthropic-batch.
	Batch Batch `yaml:"batch"`
	// Terms of use of its answers.
	Terms Terms `yaml:"terms"`
	// Weights' repository, for trainers that score with them.
	Weights string `yaml:"weights"`
	// SHA-256 of the tokenizer.json that the weights come with, in hex; logits can be exported for trainers only where it is known.
	TokenizerSHA256 string `yaml:"tokenizer_sha256" pattern:"^[0-9a-f]{64}$"`
	// Address of a server that scores tokens with them.
	ScoreURL string `yaml:"score_url"`
	// Files of recorded answers: file, glob, folder or s3:// URL.
	Path string `yaml:"path"`
	// Where a row of recorded answers holds what.
	Fields AnswerFields `yaml:"fields"`
}

// A Serve is a domain at some efforts.
type Serve struct {
	// Domain; every one where absent.
	Domain string `yaml:"domain"`
	// Efforts; every one where absent.
	Effort []string `yaml:"effort"`
}

// ParamsBy holds parameters that depend on the task.
type ParamsBy struct {
	// Parameters by effort.
	Effort map[string]map[string]any `yaml:"effort"`
}

// Limits bound what is sent to a teacher and taken from it. The first three hold
// for all workers of a cluster together and for every teacher that asks the same
// model at the same endpoint; where builds or teachers declare different ones,
// the lowest hold while they run.
type Limits struct {
	// Requests at the same time, over all workers; learned where absent.
	Concurrency int `yaml:"concurrency" min:"1" max:"65536"`
	// Requests per minute, over all workers; 0 declares none: then refusals teach it.
	RPM int `yaml:"rpm" min:"0" default:"0"`
	// Tokens per minute, of prompts and answers, over all workers; 0 declares none.
	TPM int `yaml:"tpm" min:"0" default:"0"`
	// Longest time to an open connection, TLS included.
	Connect time.Duration `yaml:"connect" default:"10s"`
	// Longest wait for the first byte of an answer.
	FirstByte time.Duration `yaml:"first_byte" default:"2m"`
	// Longest silence within an answer.
	Idle time.Duration `yaml:"idle" default:"5m"`
	// Longest time within an answer in which only keep-alives come; twice idle where absent.
	NoProgress time.Duration `yaml:"no_progress"`
	// Longest time of one answer.
	Total time.Duration `yaml:"total" default:"60m"`
	// Largest answer.
	MaxBytes ByteSize `yaml:"max_bytes" default:"64MiB"`
}

// AssumedConcurrency is how many requests at the same time plans reckon with
// where none are declared.
const AssumedConcurrency = 16

// AtOnce is the declared concurrency, or AssumedConcurrency.
func (l *Limits) AtOnce() int {
	if l.Concurrency > 0 {
		return l.Concurrency
	}
	return AssumedConcurrency
}

// A Price is in US dollars per million tokens.
type Price struct {
	// Prompt tokens.
	Input float64 `yaml:"input" min:"0"`
	// Prompt tokens read from a cache; as input where absent.
	CachedInput *float64 `yaml:"cached_input" min:"0"`
	// Prompt tokens written to a cache; as input where absent.
	CacheWrite *float64 `yaml:"cache_write" min:"0"`
	// Completion tokens, reasoning included.
	Output float64 `yaml:"output" min:"0"`
	// Part of the price that a batch API takes off: 0.5 halves it.
	BatchDiscount float64 `yaml:"batch_discount" min:"0" max:"1"`
	// Of one hour of the endpoint's hardware, for own endpoints.
	GPUHour float64 `yaml:"gpu_hour" min:"0"`
	// Day of the price list.
	AsOf Date `yaml:"as_of"`
	// Where the prices were read.
	Source string `yaml:"source"`
}

// What terms.training may say.
const (
	TrainingAllowed   = "allowed"
	TrainingForbidden = "forbidden"
	TrainingUnknown   = "unknown"
)

// Terms are a teacher's terms of use.
type Terms struct {
	// Licence of the answers.
	Licence string `yaml:"licence"`
	// Where the terms can be read.
	URL string `yaml:"url"`
	// Whether a model may be trained on the answers; forbidden blocks export and train.
	Training string `yaml:"training" enum:"allowed,forbidden,unknown" default:"unknown"`
}

// AnswerFields are dotted paths into a row of recorded answers.
type AnswerFields struct {
	// Text of the prompt; where absent, as for prompts.
	Prompt string `yaml:"prompt"`
	// Conversation; where its last turn is the assistant's, all of its turns after the prompt are the answer. A message's train (or weight) says whether the training loss sees it.
	Messages string `yaml:"messages"`
	// System text of the prompt.
	System string `yaml:"system"`
	// Text of the answer.
	Content string `yaml:"content"`
	// Reasoning of the answer.
	Reasoning string `yaml:"reasoning"`
	// Finish reason; stop where absent.
	Finish string `yaml:"finish"`
	// Model that answered.
	Model string `yaml:"model"`
	// Completion tokens of the answer.
	CompletionTokens string `yaml:"completion_tokens"`
}

// Teacher returns the teacher of that id, or nil.
func (r *Recipe) Teacher(id string) *Teacher {
	for i := range r.Teachers {
		if r.Teachers[i].ID == id {
			return &r.Teachers[i]
		}
	}
	return nil
}

// ServesTask tells whether the teacher serves tasks of that domain and effort.
func (t *Teacher) ServesTask(domain, effort string) bool {
	if len(t.Serves) == 0 {
		return true
	}
	for _, s := range t.Serves {
		if (s.Domain == "" || s.Domain == domain) && (len(s.Effort) == 0 || slices.Contains(s.Effort, effort)) {
			return true
		}
	}
	return false
}

// ParamsFor returns the request parameters at that effort: params, overlaid
// key by key with params_by.effort. The map is a copy; what it holds is shared
// and must not be changed.
func (t *Teacher) ParamsFor(effort string) map[string]any {
	out := make(map[string]any, len(t.Params)+4)
	maps.Copy(out, t.Params)
	maps.Copy(out, t.ParamsBy.Effort[effort])
	return out
}

// RouteFor returns the ids of the teachers that a task of that domain and
// effort is asked of at first hand, in the recipe's order, and why. Teachers
// that only judge are not among them.
func (r *Recipe) RouteFor(domain, effort string) (teachers []string, why string) {
	if r.Ask.Route.Kind == RouteRules {
		// Which rule holds, only a task tells: these are all that may be asked.
		for i := range r.Teachers {
			id := r.Teachers[i].ID
			if r.Teachers[i].ServesTask(domain, effort) && slices.ContainsFunc(r.Ask.Route.Rules, func(rule RouteRule) bool { return slices.Contains(rule.Teachers, id) }) {
				teachers = append(teachers, id)
			}
		}
		return teachers, "rules"
	}
	if r.Ask.Route.Kind == RouteAll {
		for i := range r.Teachers {
			if id := r.Teachers[i].ID; !r.OnlyJudges(id) {
				teachers = append(teachers, id)
			}
		}
		return teachers, "all"
	}
	for i := range r.Teachers {
		if t := &r.Teachers[i]; t.ServesTask(domain, effort) && !r.OnlyJudges(t.ID) {
			teachers = append(teachers, t.ID)
		}
	}
	return teachers, fmt.Sprintf("domain %s, effort %s", domain, effort)
}
