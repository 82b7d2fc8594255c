//go:build integration

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/internal/objstore/s3"
)

// store opens the running embedded store with what `env` prints, as any other
// tool would, and gives the variables.
func (h *house) store() (*s3.Bucket, map[string]string) {
	h.t.Helper()
	vars := map[string]string{}
	decodeJSON(h.t, h.run(0, "env", "--json").stdout(), &vars)
	b, err := s3.Open(context.Background(), s3.Options{
		URL: "s3://" + vars["STILLHOUSE_BUCKET"], Endpoint: vars["AWS_ENDPOINT_URL"], Region: vars["AWS_REGION"],
		AccessKey: vars["AWS_ACCESS_KEY_ID"], SecretKey: vars["AWS_SECRET_ACCESS_KEY"],
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return b, vars
}

// awsVars are what a tool needs to open the embedded store.
func awsVars(vars map[string]string) []string {
	var out []string
	for name, value := range vars {
		if strings.HasPrefix(name, "AWS_") {
			out = append(out, name+"="+value)
		}
	}
	return out
}

// TestServices goes the whole way once on running services: a schedule builds,
// other tools read the store, a view is exported, a trainer is started once.
func TestServices(t *testing.T) {
	s := startSim(t, "-models", "a", "-chunk", "400")
	h := newHouse(t)
	h.serve()
	const asks = 50
	m := made{dir: t.TempDir(), name: "whole", teachers: teacher(s, "a", ", terms: {training: allowed}")}
	prompts(t, filepath.Join(m.dir, "prompts.jsonl"), map[string]int{"math": asks})
	recipe := m.write(t)

	t.Run("schedule", func(t *testing.T) {
		h, s := h.on(t), s.on(t)
		h.run(0, "schedule", "create", "hourly", recipe, "--every", "1h")
		h.run(2, "schedule", "create", "hourly", recipe, "--every", "1h") // it is there
		h.run(2, "schedule", "create", "never", recipe)                   // no time
		h.run(0, "schedule", "trigger", "hourly")
		eventually(t, time.Minute, "the schedule's build publishes a version", func() bool {
			_, _, err := h.catalog().Latest(context.Background(), "whole")
			return err == nil
		})
		if st := s.total(); st.Requests != asks {
			t.Errorf("the scheduled build sent %d requests, want %d", st.Requests, asks)
		}
		h.run(0, "schedule", "pause", "hourly", "--reason", "holidays")
		list := h.schedules()
		if len(list) != 1 || list[0].Name != "hourly" || !list[0].Paused || list[0].Note != "holidays" {
			t.Errorf("schedules: %+v; want hourly, paused for holidays", list)
		}
		h.run(0, "schedule", "resume", "hourly")
		if list := h.schedules(); len(list) != 1 || list[0].Paused || list[0].NextRun.IsZero() {
			t.Errorf("schedules: %+v; want hourly, active", list)
		}
		h.run(0, "schedule", "update", "hourly", "--every", "2h", "--overlap", "buffer-one")
		h.run(0, "schedule", "update", "hourly", recipe, "--dry-run")
		var shown struct {
			Times, Overlap string
			Recent         []struct {
				State   string
				Version int64
				CostUSD *float64 `json:"cost_usd"`
			}
			Next []time.Time
		}
		if err := json.Unmarshal([]byte(h.run(0, "schedule", "show", "hourly", "--json").stdout()), &shown); err != nil {
			t.Fatal(err)
		}
		if shown.Times != "every 2h0m0s" || shown.Overlap != "buffer-one" || len(shown.Next) == 0 ||
			len(shown.Recent) != 1 || shown.Recent[0].State != "published" || shown.Recent[0].Version != 1 || shown.Recent[0].CostUSD == nil {
			t.Errorf("schedule show: %+v", shown)
		}
		h.run(2, "schedule", "update", "hourly")
		h.run(2, "schedule", "backfill", "hourly", "--from", "2099-01-01", "--to", "2099-01-02")
		h.run(0, "schedule", "delete", "hourly")
		eventually(t, 20*time.Second, "the deleted schedule is off the list", func() bool { return len(h.schedules()) == 0 })
		h.run(2, "schedule", "trigger", "hourly")
	})
	t.Run("by hand after the schedule", func(t *testing.T) {
		h, s := h.on(t), s.on(t)
		s.reset()
		if r := h.build(recipe); !r.Unchanged || r.Version != 1 || s.total().Requests != 0 {
			t.Errorf("%+v, %d requests; want version 1 unchanged", r, s.total().Requests)
		}
	})
	t.Run("other tools", func(t *testing.T) {
		h := h.on(t)
		b, _ := h.store()
		c := catalog.Open(b)
		_, manifest, err := c.Latest(context.Background(), "whole")
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, err := range catalog.ReadTable[datasets.Row](context.Background(), c, manifest, datasets.TableTrain) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if int64(n) != manifest.Rows(datasets.TableTrain) || n == 0 {
			t.Errorf("%d rows of train over S3, want %d", n, manifest.Rows(datasets.TableTrain))
		}
		// Without the keys nothing opens.
		_, vars := h.store()
		wrong, err := s3.Open(context.Background(), s3.Options{
			URL: "s3://" + vars["STILLHOUSE_BUCKET"], Endpoint: vars["AWS_ENDPOINT_URL"],
			AccessKey: vars["AWS_ACCESS_KEY_ID"], SecretKey: "wrong",
		})
		if err == nil {
			_, err = wrong.Head(context.Background(), manifest.Files[0].Key)
		}
		if err == nil {
			t.Error("the store opens with a wrong key")
		}
	})
	t.Run("export", func(t *testing.T) {
		h := h.on(t)
		out := filepath.Join(t.TempDir(), "out")
		h.run(0, "export", "whole@1", out, "--view", "messages")
		found, _ := filepath.Glob(filepath.Join(out, "*", "*.parquet")) // the pattern is ours
		flat, _ := filepath.Glob(filepath.Join(out, "*.parquet"))
		if len(found)+len(flat) == 0 {
			t.Errorf("no table in %s", out)
		}
		lines := h.run(0, "export", "whole@1", "-", "--view", "messages").stdout()
		if n := strings.Count(lines, "\n"); n != asks {
			t.Errorf("%d lines on stdout, want %d", n, asks)
		}
		b, vars := h.store()
		h.more = awsVars(vars)
		h.run(0, "export", "whole@1", "s3://"+vars["STILLHOUSE_BUCKET"]+"/exports/whole")
		n := 0
		for at, err := range b.List(context.Background(), "exports/whole/", "") {
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(at.Key, ".parquet") {
				n++
			}
		}
		if n == 0 {
			t.Error("no table under exports/whole")
		}
	})
	t.Run("train", func(t *testing.T) {
		h := h.on(t)
		dir := t.TempDir()
		starts := filepath.Join(dir, "starts")
		// A trainer that reads the bundle and says what it did.
		script := write(t, filepath.Join(dir, "trainer.sh"), fmt.Sprintf(`set -eu
echo start >>%s
test -s "$1"
grep -q '"whole"' handoff.json
awk '{print $2}' SHA256SUMS | grep -q parquet
rows=$(sed -n 's/.*"train": *\([0-9][0-9]*\).*/\1/p' handoff.json | head -n 1)
cat >result.json <<END
{"apiVersion":"stillhouse/v1","launch_id":"$STILLHOUSE_LAUNCH_ID","state":"succeeded","exit_code":0,
 "started_at":"2026-01-01T00:00:00Z","ended_at":"2026-01-01T00:01:00Z","framework":"fake 1","rows_seen":$rows,"rows_from":"trainer","metrics":{"loss":0.25}}
END
`, starts))
		command := []string{"train", "whole@1", "--json", "--model", "tiny", "--", "sh", script, "{config}"}
		var first, again struct {
			LaunchID string `json:"launch_id"`
			State    string `json:"state"`
			Result   string `json:"result"`
		}
		decodeJSON(t, h.run(0, command...).stdout(), &first)
		if first.State != "succeeded" || len(first.LaunchID) != 64 {
			t.Errorf("the training: %+v", first)
		}
		record, err := os.ReadFile(filepath.Join(h.dir, "store", "stillhouse", filepath.FromSlash(first.Result)))
		if err != nil || !strings.Contains(string(record), `"fake 1"`) || !strings.Contains(string(record), first.LaunchID) {
			t.Errorf("the record %s: %v\n%s", first.Result, err, record)
		}
		decodeJSON(t, h.run(0, command...).stdout(), &again)
		if again != first {
			t.Errorf("trained again: %+v, want %+v", again, first)
		}
		if n := strings.Count(readText(starts), "start\n"); n != 1 {
			t.Errorf("the trainer was started %d times, want once", n)
		}
		h.run(0, append([]string{"train", "--attempt", "2"}, command[1:]...)...)
		if n := strings.Count(readText(starts), "start\n"); n != 2 {
			t.Errorf("with another attempt the trainer was started %d times in all, want 2", n)
		}
		failing := write(t, filepath.Join(dir, "failing.sh"), "exit 7\n")
		if p := h.run(1, "train", "whole@1", "--model", "tiny", "--", "sh", failing); !strings.Contains(p.stdout(), "failed") {
			t.Errorf("a trainer that fails: %s", p.stdout())
		}
	})
}

// scheduleInfo is one row of `schedule list --json`.
type scheduleInfo struct {
	Name    string    `json:"name"`
	Paused  bool      `json:"paused"`
	Note    string    `json:"note"`
	NextRun time.Time `json:"next_run"`
}

func (h *house) schedules() (list []scheduleInfo) {
	h.t.Helper()
	decodeJSON(h.t, h.run(0, "schedule", "list", "--json").stdout(), &list)
	return list
}
