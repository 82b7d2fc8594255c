package activities

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/checkers"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
	"github.com/stillhouse-data/stillhouse/internal/secrets"
	"github.com/stillhouse-data/stillhouse/internal/wire"
	"github.com/stillhouse-data/stillhouse/teachers"
)

// Headers of a webhook's message.
const (
	// SignatureHeader holds t=<Unix seconds>,v1=<hex HMAC-SHA256 of "<t>.<body>">
	// where the recipe names a key. Whoever receives it computes it anew, and
	// refuses messages that are old.
	SignatureHeader = "Stillhouse-Signature"
	// DeliveryHeader is the same for every try to send one message, so that it
	// can be told twice and acted on once.
	DeliveryHeader = "Stillhouse-Delivery"
)

// A Notice is what webhooks and commands are told of a build's end. It holds
// names, numbers and keys, never a prompt, an answer or an endpoint's words.
type Notice struct {
	APIVersion string           `json:"apiVersion" jsonschema:"const=stillhouse/v1"`
	Event      string           `json:"event" jsonschema:"enum=success,enum=gate,enum=budget,enum=teacher,enum=failure"`
	Dataset    string           `json:"dataset"`
	BuildID    string           `json:"build_id"`
	Scheduled  bool             `json:"scheduled" jsonschema:"description=a schedule started the build"`
	Version    int64            `json:"version" jsonschema:"description=what it published or found unchanged; 0: nothing is published"`
	Unchanged  bool             `json:"unchanged" jsonschema:"description=nothing differed from the version that was there: nothing was published"`
	Manifest   string           `json:"manifest,omitempty" jsonschema:"description=key of the manifest"`
	Report     string           `json:"report,omitempty" jsonschema:"description=key of report.json"`
	Gates      int              `json:"gates" jsonschema:"description=gates that failed; stillhouse show says which and by how much"`
	Stopped    []string         `json:"stopped" jsonschema:"description=ids of teachers that could not be used or stopped at their budget"`
	Failure    string           `json:"failure,omitempty" jsonschema:"description=kind of the failure; stillhouse status has its words"`
	Rows       map[string]int64 `json:"rows" jsonschema:"description=by split"`
	Accepted   int64            `json:"accepted"`
	Candidates int64            `json:"candidates"`
	CostUSD    float64          `json:"cost_usd" jsonschema:"description=spent by this build"`
	DurationS  float64          `json:"duration_s"`
}

const (
	notifyTimeout = 20 * time.Second
	// mostStopped bounds the teachers that a notice names.
	mostStopped = 50
)

// Notify tells one of a recipe's notify entries how a build ended.
func (a *Activities) Notify(ctx context.Context, in wire.NotifyInput) error {
	return final(a.notify(ctx, in))
}

func (a *Activities) notify(ctx context.Context, in wire.NotifyInput) error {
	rt, err := a.runtime(ctx, in.BuildRef)
	if err != nil {
		return err
	}
	if in.Index < 0 || in.Index >= len(rt.recipe.Notify) {
		return invalidRecipe("the recipe has no notify[%d]", in.Index)
	}
	to := &rt.recipe.Notify[in.Index]
	if !to.Wants(in.Event) {
		return nil
	}
	text, err := json.Marshal(a.noticeOf(ctx, in))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, notifyTimeout)
	defer cancel()
	if to.Webhook != "" {
		return a.postNotice(ctx, to, deliveryOf(in), text)
	}
	return a.runNotice(ctx, to, text)
}

// noticeOf sums up a build from what its workflow says and what the catalog has
// of it. What the catalog cannot say now is left out: a message that comes is
// worth more than a whole one.
func (a *Activities) noticeOf(ctx context.Context, in wire.NotifyInput) *Notice {
	n := &Notice{
		APIVersion: recipe.APIVersion, Event: in.Event, Dataset: in.Dataset, BuildID: in.BuildID, Scheduled: in.Scheduled,
		Version: in.Version, Unchanged: in.Unchanged, Gates: in.Gates, Failure: in.Failure,
		Stopped: in.Stopped[:min(len(in.Stopped), mostStopped)], Rows: map[string]int64{},
	}
	if n.Stopped == nil {
		n.Stopped = []string{}
	}
	entry, err := a.Catalog.Build(ctx, in.Dataset, in.BuildID)
	if err != nil {
		a.Log.Warn("a notice goes without figures", "build", in.BuildID, "error", err)
		return n
	}
	var result BuildResult
	if len(entry.Result) > 0 && json.Unmarshal(entry.Result, &result) == nil {
		n.Manifest, n.Report, n.CostUSD, n.DurationS = result.Manifest, result.Report, result.CostUSD, result.DurationS
		n.Accepted, n.Candidates = result.Accepted, result.Candidates
		for split, rows := range result.Rows {
			n.Rows[split] = rows
		}
	}
	return n
}

func deliveryOf(in wire.NotifyInput) string {
	sum := sha256.Sum256([]byte(in.Dataset + "\x00" + in.BuildID + "\x00" + in.Event + "\x00" + strconv.Itoa(in.Index)))
	return hex.EncodeToString(sum[:16])
}

// postNotice posts a message. No redirect is followed: the key that signs was
// given for one address.
func (a *Activities) postNotice(ctx context.Context, to *recipe.Notify, delivery string, text []byte) error {
	host := hostOf(to.Webhook)
	if a.MayAsk != nil {
		if err := a.MayAsk(to.Webhook, to.KeyEnv+to.KeyFile); err != nil {
			return invalidRecipe("notify by webhook: %v", err)
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.Webhook, bytes.NewReader(text))
	if err != nil {
		return invalidRecipe("notify by webhook: the address of %s cannot be used", host) // it may hold a token
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "stillhouse")
	req.Header.Set(DeliveryHeader, delivery)
	if to.KeyEnv != "" || to.KeyFile != "" {
		key, err := a.keyring().Key(secrets.Ref{Env: to.KeyEnv, File: to.KeyFile})
		if err != nil {
			return fmt.Errorf("sign a notice: %w", err)
		}
		req.Header.Set(SignatureHeader, sign(key, time.Now(), text))
	}
	dialer := &net.Dialer{Timeout: notifyTimeout, ControlContext: teachers.RefuseMetadata}
	client := &http.Client{
		Transport:     &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true, Proxy: http.ProxyFromEnvironment, MaxResponseHeaderBytes: 64 << 10, TLSClientConfig: &tls.Config{RootCAs: a.Roots, MinVersion: tls.VersionTLS12}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	res, err := client.Do(req)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // the address may hold a token
		}
		return fmt.Errorf("post a notice to %s: %w", host, err)
	}
	defer res.Body.Close()
	_, _ = io.CopyN(io.Discard, res.Body, 64<<10)
	switch {
	case res.StatusCode >= 200 && res.StatusCode < 300:
		return nil
	case res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusRequestTimeout || res.StatusCode >= 500:
		return fmt.Errorf("post a notice to %s: status %d", host, res.StatusCode)
	}
	return invalidRecipe("post a notice to %s: status %d; it was not sent again", host, res.StatusCode)
}

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "the webhook"
	}
	return u.Host
}

// sign gives the value of SignatureHeader.
func sign(key string, at time.Time, text []byte) string {
	t := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(t + "."))
	mac.Write(text)
	return "t=" + t + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}

// runNotice starts a command with the message on its standard input. It gets no
// key: its environment is that of the commands that judge answers.
func (a *Activities) runNotice(ctx context.Context, to *recipe.Notify, text []byte) error {
	if a.MayRun == nil {
		return invalidRecipe("notify by %s: this process runs no commands of recipes", to.Command[0])
	}
	if err := a.MayRun(to.Command); err != nil {
		return invalidRecipe("notify by %s: %v", to.Command[0], err)
	}
	// A relative path starts where this process does, as it does for commands
	// that judge, and not in the folder that the command runs in.
	program, err := exec.LookPath(to.Command[0])
	if err == nil {
		program, err = filepath.Abs(program)
	}
	if err != nil {
		return invalidRecipe("notify by %s: it cannot be started here; install it on this machine, or write its whole path", to.Command[0])
	}
	cmd := exec.CommandContext(ctx, program, to.Command[1:]...)
	cmd.Dir = a.TempDir
	cmd.Stdin = bytes.NewReader(text)
	cmd.WaitDelay = time.Second
	for _, name := range checkers.Environment {
		if value, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("notify by %s: %w", to.Command[0], err)
	}
	return nil
}

// CommandsToNotify are the commands that are told of a recipe's builds.
func CommandsToNotify(r *recipe.Recipe) (out [][]string) {
	for i := range r.Notify {
		if len(r.Notify[i].Command) > 0 {
			out = append(out, r.Notify[i].Command)
		}
	}
	return out
}
