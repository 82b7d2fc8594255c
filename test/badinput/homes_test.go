//go:build integration

package badinput

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// A home that is in a bad way says which file is at fault, and a build in it
// works once that is mended.
func TestBrokenHomes(t *testing.T) {
	for _, tc := range []struct {
		name string
		file string // of the home, in whose place lies a file of garbage
		want want
	}{
		{"a file in place of Temporal's folder", "temporal", want{exitFailed, []string{"temporal/schema.json: not a directory", "stillhouse doctor"}, 0}},
		{"a file in place of the journal's folder", "worker", want{exitFailed, []string{"open the answers of this home", "worker: not a directory", "stillhouse doctor"}, 0}},
		{"a file in place of the store", "store", want{exitFailed, []string{"store: not a directory", "stillhouse doctor"}, 0}},
		{"a file in place of the logs", "logs", want{exitFailed, []string{"logs: not a directory", "stillhouse doctor"}, 0}},
		{"garbage for keys", "keys.json", want{exitFailed, []string{"keys.json", "remove the file to have new ones made", "stillhouse doctor"}, 0}},
		{"a file in place of the running services' folder", "run", want{exitUsage, []string{"run: not a directory", "--home or STILLHOUSE_HOME"}, 0}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			files := map[string]string{"p.jsonl": rows(5), "r.yaml": goodRecipe, "home/" + tc.file: "garbage"}
			dir := lay(t, files)
			h := &house{dir: filepath.Join(dir, "home")}
			tc.want.check(t, h.do(t, dir, "build", "r.yaml"))
			if err := os.Remove(filepath.Join(h.dir, tc.file)); err != nil {
				t.Fatal(err)
			}
			h.must(t, dir, "build", "r.yaml")
			h.must(t, dir, "verify", "good")
		})
	}
}

// A disk that is full ends the build with words, at whatever moment that
// happens, and the same command goes on once there is space. A limit on the
// size of files stands for the disk.
func TestFullDisk(t *testing.T) {
	for _, blocks := range []string{"100", "1000", "4000"} {
		t.Run(blocks, func(t *testing.T) {
			t.Parallel()
			dir := lay(t, map[string]string{"p.jsonl": rows(5), "r.yaml": goodRecipe})
			h := &house{dir: filepath.Join(dir, "home")}
			s := h.limited(t, dir, blocks, "build", "r.yaml", "--quiet")
			if s.code != exitFailed && s.code != exitUnreachable {
				t.Errorf("exit code %d, want %d or %d", s.code, exitFailed, exitUnreachable)
			}
			want{code: s.code, soon: commandLimit}.check(t, s)
			h.must(t, dir, "build", "r.yaml")
			h.must(t, dir, "verify", "good")
		})
	}
}

// limited runs a command whose files may have so many blocks.
func (h *house) limited(t *testing.T, dir, blocks string, args ...string) *said {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), commandLimit)
	defer cancel()
	cmd := h.command(ctx, dir, args...)
	cmd.Args = append([]string{"sh", "-c", `ulimit -f "$1" && shift && exec "$0" "$@"`, cmd.Path, blocks}, cmd.Args[1:]...)
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	cmd.Path = shell
	return end(ctx, t, cmd)
}

// Stores and Temporal servers that cannot be reached, or refuse us.
func TestUnreachable(t *testing.T) {
	dir := lay(t, map[string]string{"p.jsonl": rows(5), "r.yaml": goodRecipe})
	h := &house{dir: filepath.Join(dir, "home")}
	h.must(t, dir, "build", "r.yaml")
	h.serve(t)
	var env map[string]string
	decode(t, h.must(t, "", "env", "--json").out, &env)
	closed := strings.TrimSuffix(closedPort(t), "/v1")
	embedded := "AWS_ENDPOINT_URL=" + env["AWS_ENDPOINT_URL"]
	none := []string{"AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=nobody", "AWS_SECRET_ACCESS_KEY=" + canary}
	ours := []string{"AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=" + env["AWS_ACCESS_KEY_ID"], "AWS_SECRET_ACCESS_KEY=" + env["AWS_SECRET_ACCESS_KEY"], embedded}
	for _, tc := range []struct {
		name string
		args string
		env  []string
		want want
	}{
		{"a store where nobody listens", "list --store s3://bucket/prefix", append(none[:3:3], "AWS_ENDPOINT_URL="+closed), want{exitUnreachable, []string{"s3://bucket/prefix", "nothing answers at " + closed}, 0}},
		{"a build on a store where nobody listens", "build r.yaml --store s3://bucket/prefix", append(none[:3:3], "AWS_ENDPOINT_URL="+closed), want{exitUnreachable, []string{"s3://bucket/prefix", "nothing answers at " + closed}, 0}},
		{"a store that refuses the key", "list --store s3://stillhouse", append(none[:3:3], embedded), want{exitUnreachable, []string{"s3://stillhouse", "check the keys"}, 0}},
		{"a bucket that is not there", "list --store s3://elsewhere", ours, want{exitUnreachable, []string{"s3://elsewhere", "bucket"}, 0}},
		{"a Temporal server where nobody listens", "build r.yaml --store s3://stillhouse --temporal " + strings.TrimPrefix(closed, "http://"), ours, want{exitUnreachable, []string{"Temporal at " + strings.TrimPrefix(closed, "http://"), "connection refused", "check the address"}, 0}},
		{"prompts of a bucket that is not there", "build remote.yaml", ours, want{exitUnreachable, []string{"prompts[0].path", "s3://elsewhere"}, 0}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			work := lay(t, map[string]string{
				"p.jsonl": rows(5), "r.yaml": goodRecipe,
				"remote.yaml": strings.Replace(goodRecipe, "- path: p.jsonl", "- path: s3://elsewhere/p.jsonl", 1),
			})
			other := &house{h.dir, tc.env}
			tc.want.check(t, other.do(t, work, strings.Fields(tc.args)...))
		})
	}
	h.must(t, dir, "verify", "good")
	noCanary(t, h.dir)
}

// Two builds of one name from two folders are two builds: both end, and both
// versions are whole.
func TestTwoFoldersOneName(t *testing.T) {
	h := &house{dir: filepath.Join(t.TempDir(), "home")}
	one := lay(t, map[string]string{"p.jsonl": rows(40), "r.yaml": goodRecipe})
	two := lay(t, map[string]string{"p.jsonl": rows(60), "r.yaml": goodRecipe})
	h.serve(t)
	var wg sync.WaitGroup
	results := make([]result, 2)
	for i, dir := range []string{one, two} {
		wg.Go(func() {
			s := h.do(t, dir, "build", "r.yaml", "--json")
			if s.code != exitDone {
				t.Errorf("%s: %v", dir, s)
				return
			}
			decode(t, s.out, &results[i])
		})
	}
	wg.Wait()
	if results[0].Version+results[1].Version != 3 {
		t.Errorf("versions %+v, want 1 and 2", results)
	}
	h.must(t, "", "verify", "good@1")
	h.must(t, "", "verify", "good@2")
}
