package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"github.com/stillhouse-data/stillhouse/activities"
	"github.com/stillhouse-data/stillhouse/internal/wire"
	"github.com/stillhouse-data/stillhouse/training"
	"github.com/stillhouse-data/stillhouse/training/launch"
	"github.com/stillhouse-data/stillhouse/training/render"
)

func init() { register(trainCommand) }

// trainFlags are the flags of train.
type trainFlags struct {
	trainer, launcher, model string
	method, view             string
	tokenizer, chatTemplate  string
	maxLength, attempt       int
	env                      string
	params                   []string
	timeout                  time.Duration
	template                 string
	cancel, leaveOutUnfit    bool
}

func trainCommand(a *app) *cobra.Command {
	var f trainFlags
	cmd := &cobra.Command{
		Use:   "train REF [flags] [-- COMMAND ARG...]",
		Short: "Hand a version to an external trainer, once, and record its end",
		Long: `Train renders a bundle (the view that the trainer reads, its configuration,
run.sh), starts it once, follows it and records how it ended. The command after
-- replaces the trainer's own; {config} in it stands for the configuration.

  stillhouse train maths@3 --trainer trl --launcher command --model Qwen/Qwen3-0.6B`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.cancel {
				return a.cancelTrainings(cmd.Context(), args[0])
			}
			return a.train(cmd.Context(), args[0], args[1:], f)
		},
	}
	a.addLaunchersFlag(cmd)
	fl := cmd.Flags()
	fl.StringVar(&f.trainer, "trainer", "trl", "trainer that the configuration is for: "+strings.Join(render.Trainers(), ", "))
	fl.StringVar(&f.method, "method", "", "method of the trainer, such as sft, dpo or gkd; sft where it has several")
	fl.StringVar(&f.view, "view", "", "view that is handed over, of those that the method reads")
	fl.StringVar(&f.launcher, "launcher", "command", "what starts it: command (a process of the worker's machine), or a name of the --launchers file")
	fl.DurationVar(&f.timeout, "timeout", 0, "most time that the training may take, such as 12h; it is cancelled then")
	fl.BoolVar(&f.cancel, "cancel", false, "cancel the trainings of REF that run, and wait until they have ended")
	fl.BoolVar(&f.leaveOutUnfit, "leave-out-unfit", false, "leave out the rows that the view can't hold, and say how many, instead of refusing")
	fl.StringVar(&f.template, "template", "", "file of the template of --trainer custom")
	fl.StringVar(&f.model, "model", "", "student: a folder or a Hub name")
	fl.StringVar(&f.tokenizer, "tokenizer", "", "tokenizer, where it is not the model's")
	fl.StringVar(&f.chatTemplate, "chat-template", "", "chat template, where it is not the tokenizer's")
	fl.IntVar(&f.maxLength, "max-length", 0, "tokens of a sequence; 0 cuts nothing")
	fl.IntVar(&f.attempt, "attempt", 1, "raise it to train the same thing again")
	fl.StringVar(&f.env, "env", "", "names of variables that the trainer may see, separated by commas")
	fl.StringArrayVar(&f.params, "param", nil, "NAME=VALUE of the trainer's own, VALUE as JSON or text; may repeat")
	return cmd
}

// trainers are what this process can start. Launches live in the home, so that
// the next process finds them again. Beside the embedded services only their
// owner can ask for a launch. On a Temporal server of the user's anybody could
// who may start a workflow there, so a worker of one starts none unless its
// policy says so.
func (s *session) trainers() activities.Trainers {
	dir := s.home.Path("launches")
	all := map[string]launch.Launcher{launch.CommandLauncher: &launch.Command{
		Root: dir,
		Claim: func(ctx context.Context, launchID, owner string) error {
			return training.Claim(ctx, s.bucket, launchID, owner)
		},
	}}
	maps.Copy(all, s.app.launchers)
	allowed := activities.Trainers{Dir: dir, Lineage: s.app.lineage, Launchers: map[string]launch.Launcher{}}
	for name, l := range all {
		if !s.remote && s.app.policy == nil || s.app.policy.Launcher(name) == nil {
			allowed.Launchers[name] = l
		}
	}
	return allowed
}

func (a *app) train(ctx context.Context, ref string, command []string, f trainFlags) error {
	options, err := f.options()
	if err != nil {
		return err
	}
	if _, err := render.ViewFor(f.trainer, f.method, f.view, nil); err != nil {
		return usage("%v", err)
	}
	if a.remoteTemporal() && f.launcher == launch.CommandLauncher {
		return usage("workers of a Temporal server start no trainers: whoever may start a workflow there could run any command; leave out --temporal (and Temporal's variables) to train on this machine, --store may stay")
	}
	c, err := a.readCatalog(ctx)
	if err != nil {
		return err
	}
	v, _, err := c.Resolve(ctx, ref)
	if err != nil {
		return err
	}
	in := wire.HandOffInput{
		Ref: v.Ref(), Trainer: f.trainer, Launcher: f.launcher, Command: command,
		Model: f.model, Attempt: f.attempt, Options: options, Timeout: int64(f.timeout / time.Second),
	}
	if f.env != "" {
		for _, name := range strings.Split(f.env, ",") {
			in.Env = append(in.Env, strings.TrimSpace(name))
		}
	}
	s, err := a.open(ctx, true)
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.knowsLauncher(f.launcher); err != nil {
		return err
	}
	id, err := wire.HandOffID(in)
	if err != nil {
		return err
	}
	handle, err := s.temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: id, TaskQueue: wire.QueuePipeline,
		WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
	}, wire.WorkflowHandOff, in)
	if err != nil {
		return fmt.Errorf("start the hand-off: %w", err)
	}
	a.say("handing %s to %s; the launch runs on if this command is interrupted, and running it again follows it", in.Ref, in.Trainer)
	return s.endOfHandOff(ctx, handle)
}

// options are the flags that the workflow carries as JSON text.
func (f *trainFlags) options() (string, error) {
	if f.timeout < 0 || f.timeout > 0 && f.timeout < time.Second {
		return "", usage("--timeout %s: no training ends that soon", f.timeout)
	}
	template, err := f.readTemplate()
	if err != nil {
		return "", err
	}
	o := activities.HandOffOptions{Template: template, LeaveOutUnfit: f.leaveOutUnfit, Method: f.method, View: f.view, Tokenizer: f.tokenizer, ChatTemplate: f.chatTemplate, MaxLength: f.maxLength}
	for _, p := range f.params {
		name, value, ok := strings.Cut(p, "=")
		if !ok || name == "" {
			return "", usage("--param %s: want NAME=VALUE", p)
		}
		if o.Params == nil {
			o.Params = map[string]any{}
		}
		var v any
		if json.Unmarshal([]byte(value), &v) != nil {
			v = value
		}
		o.Params[name] = v
	}
	text, err := json.Marshal(o)
	return string(text), err
}

// maxTemplate bounds the template of the trainer custom: it goes with the
// hand-off's input.
const maxTemplate = 12 << 10

func (f *trainFlags) readTemplate() (string, error) {
	if f.template == "" {
		return "", nil
	}
	text, err := os.ReadFile(f.template)
	if err != nil {
		return "", usage("--template: %v", err)
	}
	if len(text) > maxTemplate {
		return "", usage("--template %s: %d bytes are more than %d", f.template, len(text), maxTemplate)
	}
	return string(text), nil
}
