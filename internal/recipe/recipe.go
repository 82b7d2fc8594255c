// Package recipe reads the YAML file that a user writes: strictly, with the
// line, the column and the next step in every error.
//
//	r, err := recipe.Load("maths.yaml")
//	// err is an Errors: every fault of the file, in the order of its lines
//
// The structs of this package are the declaration of the recipe: the decoder
// walks them, the JSON Schema is generated from them ([Schema], whose
// descriptions are the comments of the fields), and the nearest-name hints come
// from their keys. A loaded recipe has its defaults filled in and its
// cross-checks passed; what depends on the machine it runs on is checked apart
// ([Recipe.CheckEnv], [Recipe.CheckStore]).
package recipe

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// APIVersion is the version of the recipe that this package reads.
const APIVersion = "stillhouse/v1"

// DefaultName is the domain and the effort of prompts that name none.
const DefaultName = "default"

// A Recipe says which prompts are asked of which teachers, how the answers are
// checked and filtered, and how they are merged into a dataset.
type Recipe struct {
	// Version of the recipe's format.
	APIVersion string `yaml:"apiVersion" enum:"stillhouse/v1" default:"stillhouse/v1"`
	// Name of the dataset: lower-case letters, digits, '-', '_' and '.', at most 63.
	Name string `yaml:"name" required:"true" pattern:"^[a-z0-9][a-z0-9._-]{0,62}$"`
	// Where the prompts come from.
	Prompts []PromptSource `yaml:"prompts" required:"true"`
	// The models that are asked.
	Teachers []Teacher `yaml:"teachers" required:"true"`
	// Which teachers are asked, and how often.
	Ask Ask `yaml:"ask"`
	// Verifiers, in order.
	Check []Check `yaml:"check"`
	// Filters of answers, in order; finish where absent.
	Filter []FilterStep `yaml:"filter"`
	// Filters of prompts, before anything is asked.
	PromptFilter []PromptStep `yaml:"prompt_filter"`
	// How the accepted answers of one task become rows.
	Merge Merge `yaml:"merge"`
	// Shares of the dataset.
	Mix *Mix `yaml:"mix"`
	// Preference pairs.
	Pairs *Pairs `yaml:"pairs"`
	// Log probabilities of the teachers' tokens, as table logprobs. They are part of what is asked: answers that were asked without them are not used.
	Logprobs *Logprobs `yaml:"logprobs"`
	// Probes that tell when a teacher changed.
	Drift *Drift `yaml:"drift"`
	// Conditions without which nothing is published.
	Gates Gates `yaml:"gates"`
	// Splits of the dataset.
	Output Output `yaml:"output"`
	// The model that will be trained.
	Student *Student `yaml:"student"`
	// How the dataset is handed to a trainer.
	Handoff *Handoff `yaml:"handoff"`
	// Who is told how a build ended.
	Notify []Notify `yaml:"notify"`

	Raw  []byte `yaml:"-"` // the file as it was read
	File string `yaml:"-"` // its name, for messages
	Dir  string `yaml:"-"` // the folder that relative paths start from

	judges map[string]bool   // teachers that verifiers and policies ask
	places map[string]place  // of every key and item, by path
	texts  map[string]string // and its text, where it is one
}

// Digest is the hex SHA-256 of the file as it was read.
func (r *Recipe) Digest() string {
	sum := sha256.Sum256(r.Raw)
	return hex.EncodeToString(sum[:])
}

// A PromptSource names prompt files and says where their rows hold what.
type PromptSource struct {
	// File, glob, folder or s3:// URL; relative to the recipe's folder. Formats: .jsonl, .ndjson, .json (an array), .csv, .parquet; .jsonl.gz and .csv.gz too.
	Path string `yaml:"path" required:"true"`
	// Domain of every row; fields.domain names a column instead.
	Domain string `yaml:"domain" default:"default"`
	// Efforts that every row is asked at, one task each; fields.effort names a column instead.
	Efforts []string `yaml:"efforts"`
	// Where a row holds what.
	Fields PromptFields `yaml:"fields"`
	// Regular expression (RE2) whose first group is the gold answer inside fields.gold.
	GoldPattern string `yaml:"gold_pattern"`
	// Text of the prompt over the row's fields (Go text/template), instead of fields.prompt.
	Template string `yaml:"template"`
	// System text of every prompt; fields.system names a column instead.
	System string `yaml:"system"`
	// Most rows that are read; 0 reads all.
	Limit int `yaml:"limit" min:"0"`
	// How many rows that cannot be read may be skipped.
	BadRows int `yaml:"bad_rows" min:"0" default:"0"`
}

// PromptFields are dotted paths into a row, such as a.b or list.0.text.
type PromptFields struct {
	// Text of the prompt; where absent, the first of prompt, messages, question and instruction that the row has.
	Prompt string `yaml:"prompt"`
	// Conversation before the answer: a list of {role, content}, or its JSON text.
	Messages string `yaml:"messages"`
	// System text.
	System string `yaml:"system"`
	// Tool declarations: a list, or its JSON text.
	Tools string `yaml:"tools"`
	// Images of the prompt, before the text of its last user message: one or a list of them, each a path inside the prompt file's folder, a data URI or an https address. PNG, JPEG, GIF or WebP, at most 20 MiB each.
	Images string `yaml:"images"`
	// Domain of the row.
	Domain string `yaml:"domain"`
	// Effort of the row.
	Effort string `yaml:"effort"`
	// Gold answer.
	Gold string `yaml:"gold"`
	// Tests of the answer, for verifiers that run code or check patterns.
	Tests string `yaml:"tests"`
	// Rows of one group share a split and are asked near each other.
	Group string `yaml:"group"`
	// Fields that are kept as metadata.
	Meta []string `yaml:"meta"`
}

// Ask says which teachers are asked, how often and for how much.
type Ask struct {
	// Which teachers a task goes to: those that serve its domain and effort (domain), every one (all), or by rules.
	Route Route `yaml:"route" default:"domain"`
	// Answers per task and teacher.
	Samples Samples `yaml:"samples" default:"1"`
	// Most that may be spent.
	Budget *Budget `yaml:"budget"`
}

// Kinds of routes.
const (
	RouteDomain = "domain"
	RouteAll    = "all"
	RouteRules  = "rules"
)

// A Route is a word or a list of rules.
type Route struct {
	Kind  string // RouteDomain, RouteAll or RouteRules
	Rules []RouteRule
}

// A RouteRule sends the tasks that it matches to its teachers.
type RouteRule struct {
	// Which tasks; all where absent.
	When *When `yaml:"when"`
	// Teachers that are asked.
	Teachers []string `yaml:"teachers" required:"true"`
	// Teachers that are asked where all of those failed, one after the other until one does not.
	Fallback []string `yaml:"fallback"`
	// Whether a task goes on to the fallback although an answer to it is unknown and not failed; keep leaves it.
	Unknown string `yaml:"unknown" enum:"keep,escalate" default:"keep"`
}

// Samples is how many answers each teacher gives to a task. A plain number n
// is Min = Max = n and UntilPass = 0.
type Samples struct {
	// Fewest answers.
	Min int `yaml:"min" min:"1" max:"1024" default:"1"`
	// Most answers.
	Max int `yaml:"max" min:"1" max:"1024" default:"1"`
	// So many answers are to pass: where fewer do, further ones are asked, up to max.
	UntilPass int `yaml:"until_pass" min:"0" max:"1024"`
}

// A Budget is a hard limit on what a build spends.
type Budget struct {
	// US dollars of a build, with the earlier runs that it goes on from.
	USD float64 `yaml:"usd" min:"0" required:"true"`
	// US dollars of single teachers, by id, within usd.
	Teachers map[string]float64 `yaml:"teachers" min:"0"`
	// US dollars of all builds of the dataset within a calendar month (UTC).
	Month *float64 `yaml:"month" min:"0"`
}

// A Check is one verifier with its options, or a group of verifiers of which one verdict is made.
type Check struct {
	// Verifier's name; a group has none.
	Verifier string `yaml:"verifier" enum:"math,choice,regex,json_schema,exact,contains,tool_calls,format,command,code,judge,reward"`
	// Group that passes where all of its members pass, and fails where one fails.
	All []Check `yaml:"all"`
	// Group that passes where one of its members passes, and fails where all fail.
	Any []Check `yaml:"any"`
	// Group whose verdict is the first of its members', in order, that is not unknown.
	First []Check `yaml:"first"`
	// Group that passes where its members' shares of the weights reach pass_at.
	Weighted []Check `yaml:"weighted"`
	// What a member of a weighted group counts for; 1 where absent.
	Weight *float64 `yaml:"weight" min:"0"`
	// Which candidates it applies to; all where absent.
	When *When `yaml:"when"`
	// Most time that one answer may take.
	Timeout time.Duration `yaml:"timeout"`
	// Options are the verifier's own keys, beside these.
	Options map[string]any `yaml:",inline"`
}

// A FilterStep is one filter: a bare name, or a map of one name to its options.
// Options is a map for a map, and {"value": v} for a plain value.
type FilterStep struct {
	Name    string
	Options map[string]any
	When    *When // which candidates it applies to; nil for all
	// Expr is the expression of the filter expr, which keeps the candidates for
	// which it holds, and Reason the recipe's word for those that it rejects.
	Expr   *When
	Reason string
}

// Merge policies.
const (
	Union           = "union"
	AllPassing      = "all_passing"
	BestOf          = "best_of"
	Vote            = "vote"
	Agreement       = "agreement"
	Pairwise        = "pairwise"
	ShortestPassing = "shortest_passing"
	CheapestPassing = "cheapest_passing"
	OwnerFirst      = "owner_first"
)

// What merge.accept may say.
const (
	AcceptPass          = "pass"
	AcceptPassOrUnknown = "pass_or_unknown"
	AcceptAny           = "any"
)

// Merge says how the accepted candidates of one task become rows.
type Merge struct {
	// Policy; where absent, best_of if the recipe has a verifier, else union.
	Policy string `yaml:"policy" enum:"union,all_passing,best_of,vote,agreement,pairwise,shortest_passing,cheapest_passing,owner_first"`
	// Verdicts that are accepted; where absent, pass for candidates that a verifier applies to and any for the others.
	Accept string `yaml:"accept" enum:"pass,pass_or_unknown,any"`
	// Most rows of one task; where absent, 1 under policies that choose one answer and no limit under union, all_passing, vote and agreement.
	PerTask int `yaml:"per_task" min:"1"`
	// Most rows of one task by one teacher.
	PerTeacher int `yaml:"per_teacher" min:"1"`
	// Of which equal answers to one task one stays: those of one teacher (where absent), those of all teachers, or none.
	AnswerDuplicates string `yaml:"answer_duplicates" enum:"keep,per_teacher,per_task"`
	// Jaccard similarity from which two answers to one task count as equal; where absent, only answers that say the same do.
	NearDuplicates *float64 `yaml:"near_duplicates" min:"0.5" max:"1"`
	// vote: least share of the votes for the answer that wins; 0.5 where absent.
	Share *float64 `yaml:"share" min:"0.01" max:"1"`
	// vote: least lead over the next answer, in votes; 1 where absent.
	Margin int `yaml:"margin" min:"1"`
	// agreement: how many teachers have to agree; 2 where absent.
	Agree int `yaml:"agree" min:"1"`
	// Pass rates of the tasks that enter the dataset.
	Difficulty *Difficulty `yaml:"difficulty"`
	// Who compares the accepted answers to a task, for policy pairwise.
	Judge *MergeJudge `yaml:"judge"`
}

// Mix sets the shares of the dataset.
type Mix struct {
	// What the shares are of: rows of one domain, effort, teacher or prompt file; where absent, all rows are of one kind.
	By string `yaml:"by" enum:"domain,effort,teacher,source"`
	// Shares are as the rows that there are to this power: 1 keeps them (where absent), 0 makes them equal.
	Alpha *float64 `yaml:"alpha" min:"0" max:"1"`
	// Shares are as the rows that there are, of which no kind counts more than this.
	Most int `yaml:"most" min:"1"`
	// Shares by name; what is not named gets none.
	Weights map[string]float64 `yaml:"weights" min:"0"`
	// Rows in all; where absent, as many as there are in these shares.
	Total int `yaml:"total" min:"1"`
	// Largest share of the dataset that one teacher, source, prompt, domain or effort may have, by that word.
	Caps map[string]float64 `yaml:"caps" min:"0" max:"1"`
}

// Pairs asks for preference pairs.
type Pairs struct {
	// Least difference of the scores, where the verdicts do not differ.
	Margin float64 `yaml:"margin" min:"0"`
	// Most pairs of one task.
	MaxPerTask int `yaml:"max_per_task" min:"1" max:"64" default:"1"`
	// How many times as long as the other the longer of the two may be; where absent, any length.
	MaxLengthRatio *float64 `yaml:"max_length_ratio" min:"1"`
	// Which teachers a pair may be of: any two, or one and the same.
	Teachers string `yaml:"teachers" enum:"any,same" default:"any"`
}

// Logprobs asks for the log probabilities of the teachers' tokens.
type Logprobs struct {
	// Alternatives per token; endpoints give 20 at most unless they were started for more.
	Top int `yaml:"top" min:"1" max:"1024" required:"true"`
}

// Drift asks fixed probes again, to tell when a teacher changed.
type Drift struct {
	// Prompts of each teacher that are asked once more; always the same ones.
	Probe int `yaml:"probe" min:"1" max:"10000" required:"true"`
	// Least time between two probes, and between the first answers and the first probe.
	Every time.Duration `yaml:"every" default:"7d"`
}

// Gates are conditions without which nothing is published.
type Gates struct {
	// Fewest rows, after the mixture.
	MinRows int `yaml:"min_rows" min:"0"`
	// Fewest rows by domain, after the mixture.
	MinDomainRows map[string]int `yaml:"min_domain_rows" min:"0"`
	// Fewest preference pairs.
	MinPairs int `yaml:"min_pairs" min:"0"`
	// Least pass rate, by domain.
	MinPassRate map[string]float64 `yaml:"min_pass_rate" min:"0" max:"1"`
	// Largest share of the answers that may have a reject reason, by reason; a name takes also the reasons that begin with it and a colon, and any takes every answer that was rejected.
	MaxRejected map[string]float64 `yaml:"max_rejected" min:"0" max:"1"`
	// Largest share of the mixture's rows that may be missing.
	MaxMixShortfall *float64 `yaml:"max_mix_shortfall" min:"0" max:"1"`
	// Whether a probe, of this build or of an earlier one with nothing asked anew since, may show that a teacher changed.
	AllowDrift *bool `yaml:"allow_drift"`
	// Most that the build may have cost, in US dollars.
	MaxCostUSD *float64 `yaml:"max_cost_usd" min:"0"`
}

// Output says how the rows are split.
type Output struct {
	// Share of each split, train and test; they sum to 1.
	Splits map[string]float64 `yaml:"splits" min:"0" max:"1"`
	// Seed of the splits.
	Seed int64 `yaml:"seed" default:"0"`
	// How much of the prompts and answers the report's page shows: none, a sample of 200 prompts, or all, up to 2,000.
	ReportText string `yaml:"report_text" enum:"none,sample,all" default:"sample"`
}

// A Student is the model that will be trained.
type Student struct {
	// Model's name or path.
	Model string `yaml:"model" required:"true"`
	// Tokenizer's name or path; the model's where absent.
	Tokenizer string `yaml:"tokenizer"`
	// Chat template, a name or a file; the tokenizer's where absent.
	ChatTemplate string `yaml:"chat_template"`
	// Longest sequence, in tokens.
	MaxLength int `yaml:"max_length" min:"1"`
	// Who serves the student, to say how likely accepted answers are to it.
	Score *StudentScore `yaml:"score"`
}

// A Handoff says which trainer takes the dataset and what starts it.
type Handoff struct {
	// Trainer that the bundle is rendered for, such as trl.
	Trainer string `yaml:"trainer" required:"true"`
	// Trainer's method, such as sft or dpo; its usual one where absent.
	Method string `yaml:"method"`
	// View that is handed over, of those that the method reads; its usual one where absent.
	View string `yaml:"view"`
	// What starts the trainer: command, or one that the worker's --launchers file names.
	Launcher string `yaml:"launcher" default:"command"`
	// Program and arguments in place of the trainer's own, run in the bundle's folder.
	Command []string `yaml:"command"`
	// Names of the launching worker's variables that the trainer may see.
	Env []string `yaml:"env"`
	// Leave out rows that the view can't hold, and say how many, instead of refusing.
	LeaveOutUnfit bool `yaml:"leave_out_unfit"`
	// Most time that the training may take.
	Timeout time.Duration `yaml:"timeout"`
	// Trainer's own parameters, passed through as they are.
	Params map[string]any `yaml:"params"`
}

// HasVerifier tells whether any verifier is declared.
func (r *Recipe) HasVerifier() bool { return len(r.Check) > 0 }

// Policy is the merge policy: the recipe's, or best_of where it has a verifier,
// else union.
func (r *Recipe) Policy() string {
	switch {
	case r.Merge.Policy != "":
		return r.Merge.Policy
	case r.HasVerifier():
		return BestOf
	}
	return Union
}
