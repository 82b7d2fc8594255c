package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/stillhouse-data/stillhouse/datasets/verify"
)

// goTools compile Go programs without the go command: the compiler and the
// linker run in a box, over archives of the standard library that were made
// once. No cache can be written to by a program, and compiling takes a part of
// the time.
type goTools struct {
	once sync.Once
	err  error

	compile, link string
	dir           string // of the archives; importcfg names them below /box/std
	config        []byte // importcfg
}

// goPackages is what programs may import: the standard library, but for its
// commands and what needs C.
const goPackages = "std"

// goPrepare bounds the making of the archives: a machine that never built the
// standard library does so now.
const goPrepare = 10 * time.Minute

func (g *goTools) close() {
	if g.dir != "" {
		_ = os.RemoveAll(g.dir)
	}
}

// prepare makes the archives, the first time.
func (g *goTools) prepare(t tools) error {
	g.once.Do(func() { g.err = g.make(t) })
	return g.err
}

func (g *goTools) make(t tools) error {
	goCommand, err := t.need("go")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), goPrepare)
	defer cancel()
	run := func(args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, goCommand, args...)
		cmd.Dir = os.TempDir() // outside of any module
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GO111MODULE=off", "GOFLAGS=", "GOTOOLCHAIN=local", "GOWORK=off")
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if err != nil {
			return "", fmt.Errorf("run go %s: %w: %s", args[0], err, oneLine(errs.Bytes()))
		}
		return string(out), nil
	}
	where, err := run("env", "GOTOOLDIR")
	if err != nil {
		return err
	}
	g.compile, g.link = filepath.Join(strings.TrimSpace(where), "compile"), filepath.Join(strings.TrimSpace(where), "link")
	list, err := run("list", "-export", "-f", "{{if .Export}}{{.ImportPath}}={{.Export}}{{end}}", goPackages)
	if err != nil {
		return err
	}
	if g.dir, err = tempFolder("go"); err != nil {
		return err
	}
	if err := os.Chmod(g.dir, 0o755); err != nil {
		return err
	}
	var config bytes.Buffer
	n := 0
	for line := range strings.Lines(list) {
		path, archive, ok := strings.Cut(strings.TrimSpace(line), "=")
		if !ok {
			continue
		}
		data, err := os.ReadFile(archive)
		if err != nil {
			return fmt.Errorf("read an archive of Go's: %w", err)
		}
		n++
		name := fmt.Sprintf("%d.a", n)
		if err := os.WriteFile(filepath.Join(g.dir, name), data, 0o644); err != nil {
			return fmt.Errorf("keep an archive of Go's: %w", err)
		}
		fmt.Fprintf(&config, "packagefile %s=/std/%s\n", path, name)
	}
	if n == 0 {
		return fmt.Errorf("%s has no standard library", goCommand)
	}
	g.config = config.Bytes()
	return nil
}

// Limits of compiling, which is hostile input's too.
var goLimits = Limits{CPU: 60 * time.Second, Wall: 120 * time.Second, Memory: 2 << 30, Processes: 64, Disk: 256 << 20, Output: 64 << 20}

// buildGo compiles files of one package main. A fault is theirs.
func (b *Box) buildGo(ctx context.Context, sources map[string][]byte, p *verify.Program, slot int) ([]byte, *verify.Outcome, error) {
	if b.kind != Bubblewrap && b.kind != Unsafe {
		return nil, nil, fmt.Errorf("go programs need bubblewrap; %s does not compile them", b.kind)
	}
	if err := b.golang.prepare(b.tools); err != nil {
		return nil, nil, err
	}
	j := &job{
		files: []file{{name: "importcfg", data: b.golang.config}}, limits: goLimits,
		bind: b.golang.dir,
	}
	names := make([]string, 0, len(sources))
	for _, name := range sortedKeys(sources) {
		j.files = append(j.files, file{name: name, data: sources[name]})
		names = append(names, "/box/"+name)
	}
	j.argv = append([]string{
		"/bin/sh", "-c", `compile=$1 link=$2; shift 2
"$compile" -p main -complete -pack -trimpath /box -c 2 -importcfg /box/importcfg -o "$TMPDIR/a.a" "$@" >&2 || exit 7
"$link" -s -w -importcfg /box/importcfg -o "$TMPDIR/a.out" "$TMPDIR/a.a" >&2 || exit 8
exec cat "$TMPDIR/a.out"`, "sh", b.golang.compile, b.golang.link,
	}, names...)
	got, err := b.capture(ctx, j, slot, nil)
	switch {
	case err != nil:
		return nil, nil, err
	case got.exit.code == 7 || got.exit.code == 8:
		return nil, &verify.Outcome{Kind: verify.Failed, Reason: "the answer does not compile: " + oneLine(got.stderr)}, nil
	case got.exit.limit != "" || got.timeout || got.flooded:
		return nil, &verify.Outcome{Kind: verify.Failed, Reason: "compiling the answer took too much"}, nil
	case got.exit.code != 0 || len(got.stdout) == 0:
		return nil, nil, fmt.Errorf("the compiler ended with %d: %s", got.exit.code, oneLine(got.stderr))
	}
	return got.stdout, nil, nil
}
