package secrets

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

const canary = "sk-canary-0123456789abcdef"

func noVariables(string) (string, bool) { return "", false }

// keyFile writes a file as a key should be kept.
func keyFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestKeyOfAVariableIsReadEachTime(t *testing.T) {
	value := canary
	k := New(Options{Lookup: func(string) (string, bool) { return value, true }})
	ref := Ref{Env: "K"}
	if key, err := k.Key(ref); err != nil || key != canary {
		t.Fatalf("%q, %v", key, err)
	}
	value = " another-key\n"
	if key, err := k.Key(ref); err != nil || key != "another-key" {
		t.Errorf("%q, %v: want what the variable holds now", key, err)
	}
	if !k.Renew(ref, canary) || k.Renew(ref, "another-key") {
		t.Error("renewed where there is no other key, or not where there is one")
	}
	if known := strings.Join(k.Known(), " "); known != canary+" another-key" {
		t.Errorf("known are %q", known)
	}
}

func TestKeyOfAFileIsReadForMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := keyFile(t, canary+"\n")
		k := New(Options{Lookup: noVariables})
		ref := Ref{File: path}
		read := func(want string) {
			t.Helper()
			if key, err := k.Key(ref); err != nil || key != want {
				t.Errorf("%q, %v, want %q", key, err, want)
			}
		}
		read(canary)
		if err := os.WriteFile(path, []byte("the-next-key"), 0o600); err != nil {
			t.Fatal(err)
		}
		read(canary)
		pass(freshFor)
		read("the-next-key")
	})
}

func TestARefusedKeyIsReadAnewOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int32
		value := "key-of-monday"
		k := New(Options{Lookup: noVariables, Fetch: func(context.Context, string) (string, error) { reads.Add(1); return value, nil }})
		ref := Ref{Secret: "stillhouse/t"}
		if key, err := k.Key(ref); err != nil || key != value {
			t.Fatalf("%q, %v", key, err)
		}
		if k.Renew(ref, value); reads.Load() != 1 {
			t.Error("a key that was read a moment ago was read again")
		}
		pass(failedFor)
		value = "key-of-tuesday"
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				if !k.Renew(ref, "key-of-monday") {
					t.Error("not renewed though there is another key")
				}
			})
		}
		wg.Wait()
		if reads.Load() != 2 {
			t.Errorf("%d reads for a hundred refused asks, want one more", reads.Load()-1)
		}
		if key, _ := k.Key(ref); key != value {
			t.Errorf("key %q", key)
		}
	})
}

type busy struct{ error }

func (busy) Temporary() bool { return true }

func TestAnOutageOfTheStoreDoesNotStopAGoodKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var outage error
		var reads atomic.Int32
		k := New(Options{Lookup: noVariables, Fetch: func(context.Context, string) (string, error) { reads.Add(1); return canary, outage }})
		ref := Ref{Secret: "s"}
		if _, err := k.Key(ref); err != nil {
			t.Fatal(err)
		}
		outage = busy{errors.New("try later")}
		pass(freshFor + time.Second)
		before := reads.Load()
		for range 100 {
			if key, err := k.Key(ref); err != nil || key != canary {
				t.Fatalf("%q, %v", key, err)
			}
		}
		if n := reads.Load() - before; n != 1 {
			t.Errorf("%d requests while the store is out, want 1", n)
		}
		pass(freshFor + staleFor)
		var e *Error
		if _, err := k.Key(ref); !errors.As(err, &e) || !e.Temporary() {
			t.Errorf("after an hour: %v, want a temporary error", err)
		}
		outage = errors.New("access denied")
		pass(failedFor)
		if _, err := k.Key(ref); !errors.As(err, &e) || e.Temporary() || !strings.Contains(e.Error(), "access denied") {
			t.Errorf("%v, want a lasting error with the store's words", err)
		}
		outage = nil
		pass(failedFor)
		if key, err := k.Key(ref); err != nil || key != canary {
			t.Errorf("after the outage: %q, %v", key, err)
		}
	})
}

func TestMemberOfASecret(t *testing.T) {
	k := New(Options{Lookup: noVariables, Fetch: func(_ context.Context, name string) (string, error) {
		if name == "text" {
			return canary, nil
		}
		return `{"moonshot":"` + canary + `","n":1}`, nil
	}})
	if key, err := k.Key(Ref{Secret: "all#moonshot"}); err != nil || key != canary {
		t.Errorf("%q, %v", key, err)
	}
	for _, name := range []string{"all#other", "all#n", "text#moonshot"} {
		_, err := k.Key(Ref{Secret: name})
		if err == nil || strings.Contains(err.Error(), "canary") || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := New(Options{Lookup: noVariables}).Key(Ref{Secret: "s"}); err == nil || !strings.Contains(err.Error(), "api_key_file") {
		t.Errorf("without a store: %v", err)
	}
}

func TestFilesThatAreNotKeptAsKeys(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(file("good", canary, 0o600), link); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ path, want string }{
		"for the group":   {file("group", canary, 0o640), "mode 0640"},
		"for the world":   {file("world", canary, 0o604), "chmod 600"},
		"a folder":        {dir, "no regular file"},
		"a pipe":          {pipe, "no regular file"},
		"missing":         {filepath.Join(dir, "none"), "no such file"},
		"relative":        {"keys/t", "not absolute"},
		"empty":           {file("empty", " \n", 0o600), "empty"},
		"large":           {file("large", strings.Repeat("x", maxSecret+1), 0o600), "larger than 64 KiB"},
		"two lines":       {file("lines", canary+"\n"+canary, 0o600), "no key"},
		"control":         {file("control", canary+"\x00", 0o600), "no key"},
		"too long a line": {file("long", strings.Repeat("x", maxKey+1), 0o600), "no key"},
	} {
		_, err := New(Options{Lookup: noVariables}).Key(Ref{File: c.path})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if key, err := New(Options{Lookup: noVariables}).Key(Ref{File: link}); err != nil || key != canary {
		t.Errorf("by a link: %q, %v", key, err)
	}
	t.Setenv("HOME", dir)
	if key, err := New(Options{Lookup: noVariables}).Key(Ref{File: "~/good"}); err != nil || key != canary {
		t.Errorf("in the home: %q, %v", key, err)
	}
}

func TestWhatAWorkerOfAClusterReads(t *testing.T) {
	allowed, other := t.TempDir(), t.TempDir()
	write := func(dir, name string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(canary), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	inside, outside := write(allowed, "k"), write(other, "k")
	out := filepath.Join(allowed, "out")
	if err := os.Symlink(outside, out); err != nil {
		t.Fatal(err)
	}
	k := New(Options{Lookup: noVariables, Fetch: func(context.Context, string) (string, error) { return canary, nil },
		Allow: &Allow{Folders: []string{allowed}, Prefixes: []string{DefaultSecretPrefix}}})
	for ref, ok := range map[Ref]bool{
		{File: inside}:  true,
		{File: outside}: false,
		{File: out}:     false,
		{File: allowed + "/../" + filepath.Base(other) + "/k"}:                                      false,
		{Secret: "stillhouse/moonshot"}:                                                             true,
		{Secret: "arn:aws:secretsmanager:eu-west-1:123456789012:secret:stillhouse/moonshot-AbCdEf"}: true,
		{Secret: "production/database"}:                                                             false,
		{Secret: "arn:aws:secretsmanager:eu-west-1:123456789012:secret:production/stillhouse/x"}:    false,
	} {
		key, err := k.Key(ref)
		if (err == nil) != ok || ok && key != canary {
			t.Errorf("%s: %q, %v, want it read: %v", ref, key, err, ok)
		}
		if err != nil && !strings.Contains(err.Error(), "worker's policy") {
			t.Errorf("%s: %v does not say how to allow it", ref, err)
		}
	}
}

// What a platform mounts among the secrets to prove who a worker is would make
// any endpoint that got it the worker: of Kubernetes, AWS, Azure and Google.
func TestAWorkersIdentityIsNoKey(t *testing.T) {
	dir := t.TempDir()
	ring := func(folders ...string) *Keyring {
		return New(Options{Lookup: noVariables, Allow: &Allow{Folders: folders}})
	}
	for path, ok := range map[string]bool{
		"kubernetes.io/serviceaccount/..2026_11_30/token":              false,
		"eks.amazonaws.com/serviceaccount/token":                       false,
		"pods.eks.amazonaws.com/serviceaccount/eks-pod-identity-token": false,
		"azure/tokens/azure-identity-token":                            false,
		"tokens/gcp-ksa/token":                                         false,
		"moonshot":                                                     true,
		"teachers/..2026_11_30/moonshot":                               true,
		"serviceaccount":                                               true, // a file's own name says nothing
	} {
		file := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(canary), 0o600); err != nil {
			t.Fatal(err)
		}
		link := filepath.Join(dir, "link")
		_ = os.Remove(link)
		if err := os.Symlink(file, link); err != nil {
			t.Fatal(err)
		}
		for _, way := range []string{file, link} {
			key, err := ring(dir).Key(Ref{File: way})
			if (err == nil) != ok || ok && key != canary {
				t.Errorf("%s: %q, %v, want it read: %v", path, key, err, ok)
			}
			if err != nil && !strings.Contains(err.Error(), "keys.folders") {
				t.Errorf("%v does not say how to allow it", err)
			}
		}
		if key, err := ring(dir, filepath.Dir(file)).Key(Ref{File: file}); err != nil || key != canary {
			t.Errorf("%s: %q, %v, though its folder is named", path, key, err)
		}
		if _, err := ring("", ".", "relative").Key(Ref{File: file}); err == nil {
			t.Errorf("%s is read though no folder is named", path)
		}
	}
}

// pass lets time go by on synctest's clock.
func pass(d time.Duration) { <-time.After(d) }
