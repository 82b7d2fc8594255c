package training

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"
)

//go:embed run.sh.tmpl
var runText string

var runTemplate = template.Must(template.New(RunFile).Parse(runText))

// Exit codes of run.sh where it is not the trainer's own.
const (
	ExitBadData = 65 // a digest or a row count is not what was handed over
	ExitClaimed = 75 // another machine has claimed the launch
)

// viewFileName is what a view's file may be called: it stands in checksums,
// configurations and a shell script.
var viewFileName = regexp.MustCompile(`^` + DataFolder + `/[a-z]+-[0-9A-Za-z-]+[.](parquet|jsonl)$`)

// ViewFileName names a view's file: data/train-00000-of-00004.parquet. Ext is
// parquet or jsonl.
func ViewFileName(split string, seq, of int, ext string) string {
	return fmt.Sprintf("%s/%s-%05d-of-%05d.%s", DataFolder, split, seq, of, ext)
}

// Validate tells what is wrong with a bundle, by field.
func (b *Bundle) Validate() error {
	bad := func(field, format string, args ...any) error {
		return fmt.Errorf("hand-off bundle: %s: %s", field, fmt.Sprintf(format, args...))
	}
	switch {
	case b.APIVersion != APIVersion:
		return bad("apiVersion", "%q is not %s", b.APIVersion, APIVersion)
	case !isHex64(b.LaunchID):
		return bad("launch_id", "%q is not 64 hex digits", b.LaunchID)
	case b.Attempt < 1:
		return bad("attempt", "%d is below 1", b.Attempt)
	case b.Dataset.Name == "" || b.Dataset.Version < 1:
		return bad("dataset", "%q version %d is no version", b.Dataset.Name, b.Dataset.Version)
	case !isHex64(b.Dataset.ManifestDigest):
		return bad("dataset.manifest_digest", "%q is not 64 hex digits", b.Dataset.ManifestDigest)
	case len(b.Trainer.Command) == 0:
		return bad("trainer.command", "is empty")
	case len(b.View.Files) == 0:
		return bad("view.files", "is empty")
	}
	rows := map[string]int64{}
	for i, f := range b.View.Files {
		field := fmt.Sprintf("view.files[%d]", i)
		switch {
		case !viewFileName.MatchString(f.Name):
			return bad(field, "name %q is not %s", f.Name, viewFileName)
		case !isHex64(f.SHA256):
			return bad(field, "sha256 %q is not 64 hex digits", f.SHA256)
		case f.Bytes < 0 || f.Rows < 0:
			return bad(field, "%d bytes, %d rows", f.Bytes, f.Rows)
		case f.Split == "":
			return bad(field, "no split")
		}
		rows[f.Split] += f.Rows
	}
	for split, n := range rows {
		if b.View.Rows[split] != n {
			return bad("view.rows", "%s is %d, but its files hold %d", split, b.View.Rows[split], n)
		}
	}
	for _, t := range b.Teachers {
		switch t.Training {
		case TrainingAllowed, TrainingUnknown:
		case TrainingForbidden:
			return bad("teachers", "the terms of teacher %s forbid training on its answers; build the dataset without it", t.ID)
		default:
			return bad("teachers", "terms of %s are %q, not allowed, forbidden or unknown", t.ID, t.Training)
		}
	}
	return nil
}

// Files returns the bundle's own files: handoff.json, the configuration,
// run.sh, env.example and SHA256SUMS. The view's files lie beside them under
// the names that the bundle gives them.
func (b *Bundle) Files(r *Rendered) ([]File, error) {
	if err := b.Validate(); err != nil {
		return nil, err
	}
	handoff, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("hand-off bundle: %w", err)
	}
	run, err := b.runScript()
	if err != nil {
		return nil, err
	}
	files := []File{
		{Name: HandoffFile, Data: append(handoff, '\n')},
		{Name: RunFile, Mode: 0o755, Data: run},
		{Name: EnvFile, Data: []byte(envExample())},
		{Name: SumsFile, Data: []byte(b.sums())},
	}
	files = append(files, r.Files...)
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return files, nil
}

// sums is SHA256SUMS of the view's files, in the form that sha256sum reads.
func (b *Bundle) sums() string {
	var s strings.Builder
	for _, f := range b.View.Files {
		fmt.Fprintf(&s, "%s  %s\n", f.SHA256, f.Name)
	}
	return s.String()
}

func (b *Bundle) runScript() ([]byte, error) {
	var train []string
	for _, f := range b.View.Files {
		if f.Split == "train" {
			train = append(train, Quote(f.Name))
		}
	}
	command := make([]string, len(b.Trainer.Command))
	for i, word := range b.Trainer.Command {
		if strings.ContainsRune(word, 0) {
			return nil, fmt.Errorf("hand-off bundle: trainer.command[%d]: holds a zero byte", i)
		}
		command[i] = Quote(word)
	}
	var out bytes.Buffer
	err := runTemplate.Execute(&out, map[string]string{
		"LaunchID":    Quote(b.LaunchID),
		"APIVersion":  Quote(APIVersion),
		"Rows":        Quote(strconv.FormatInt(b.View.Rows["train"], 10)),
		"TrainFiles":  strings.Join(train, " "),
		"Command":     strings.Join(command, " "),
		"Package":     Quote(b.Trainer.Package),
		"ExitBadData": strconv.Itoa(ExitBadData),
		"ExitClaimed": strconv.Itoa(ExitClaimed),
	})
	if err != nil {
		return nil, fmt.Errorf("hand-off bundle: %s: %w", RunFile, err)
	}
	return out.Bytes(), nil
}

// Quote makes one word of s for a POSIX shell, whatever it holds.
func Quote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// An EnvName is a variable that a launch may want from its surroundings. A
// bundle holds names only, never values.
type EnvName struct{ Name, Use string }

// EnvNames lists the variables that env.example explains.
var EnvNames = []EnvName{
	{"CUDA_VISIBLE_DEVICES", "the GPUs that the trainer may use"},
	{"HF_HOME", "where models are kept"},
	{"HF_TOKEN", "access to models that ask for it"},
	{"HF_HUB_OFFLINE", "1: nothing is fetched from the Hub"},
	{"WANDB_API_KEY", "reports to Weights & Biases (report_to: wandb)"},
	{"WANDB_BASE_URL", "its own server"},
	{"WANDB_PROJECT", "its project"},
	{"MLFLOW_TRACKING_URI", "reports to MLflow (report_to: mlflow)"},
	{"STILLHOUSE_PYTHON", "the Python that counts rows (default python3)"},
	{"STILLHOUSE_URLS", "a file of lines NAME<tab>URL, from which missing view files are fetched"},
	{"STILLHOUSE_CLAIM_URL", "where the launch is claimed by PUT before it trains"},
	{"STILLHOUSE_RESULT_URL", "where result.json is put when it has ended"},
}

func envExample() string {
	var s strings.Builder
	s.WriteString("# Variables that run.sh and the trainer read. Names only: secrets never enter a bundle.\n")
	for _, e := range EnvNames {
		fmt.Fprintf(&s, "\n# %s\n#%s=\n", e.Use, e.Name)
	}
	return s.String()
}
