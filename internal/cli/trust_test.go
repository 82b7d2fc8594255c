package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/internal/home"
	"github.com/stillhouse-data/stillhouse/internal/wire"
	"github.com/stillhouse-data/stillhouse/training/launch"
)

// Whoever may start a workflow on a shared server must not be able to run
// commands on the machines of its workers.
func TestWorkersOfAServerRunNoCommands(t *testing.T) {
	s := &session{app: &app{}, home: &home.Home{Dir: t.TempDir()}}
	if s.trainers().Launchers[launch.CommandLauncher] == nil {
		t.Error("beside the embedded services there is no command launcher")
	}
	s.remote = true
	if got := s.trainers(); len(got.Launchers) != 0 {
		t.Errorf("a worker of a server has the launchers %v", got.Launchers)
	}

	a, _, talk := newApp(t, nil)
	args := []string{"train", "maths@1", "--temporal", "127.0.0.1:1", "--store", "s3://b/p", "--", "sh", "-c", "id"}
	if code := a.run(t.Context(), args); code != exitUsage || !strings.Contains(talk.String(), "--temporal") {
		t.Errorf("ended with %d and said %q", code, talk)
	}
}

// A home may be any folder of its user, who may keep files in it.
func TestClearTempLeavesTheUsersFiles(t *testing.T) {
	h, err := home.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	theirs, ours := h.Path("tmp", "thesis.tex"), h.Path("worker", "tmp", "seal-1", "train.parquet")
	for _, path := range []string{theirs, ours} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	temp, err := clearTemp(h)
	if err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) != 0 {
		t.Errorf("left of a killed process: %v, %v", left, err)
	}
	if _, err := os.Stat(theirs); err != nil {
		t.Error(err)
	}
}

// obeyed tells whether a terminal would obey a part of the text.
func obeyed(s string) bool { return strings.ContainsAny(s, "\x1b\x07\r\u009b\u202e\u2066") }

// What a store or a server says is shown, never obeyed.
func TestStoredTextIsPrintable(t *testing.T) {
	for _, asJSON := range []bool{false, true} {
		a, data, _ := newApp(t, nil)
		a.json = asJSON
		if err := a.printIntent(&catalog.Intent{Dataset: hostile, BuildID: hostile, State: hostile, Reason: hostile, Version: 1}); err != nil {
			t.Fatal(err)
		}
		if obeyed(data.String()) || data.Len() == 0 {
			t.Errorf("the terminal gets %q", data)
		}
		if asJSON {
			var back catalog.Intent
			if err := json.Unmarshal(data.Bytes(), &back); err != nil || back.Reason != hostile {
				t.Errorf("as JSON it reads %q, %v", back.Reason, err)
			}
		}
	}
}

// The live picture counts its lines to draw over them, so no name or reason may
// make two of one.
func TestProgressIsOneLineATeacher(t *testing.T) {
	var screen bytes.Buffer
	a, _, _ := newApp(t, nil)
	v := newProgressView(a)
	v.w, v.live = &screen, true
	p := &wire.Progress{BuildRef: wire.BuildRef{Dataset: hostile}, Paused: true, Why: "one\ntwo" + hostile, Teachers: []wire.TeacherStatus{{ID: hostile, Waiting: hostile}}}
	v.show(p)
	shown := strings.ReplaceAll(screen.String(), "\x1b[2K", "")
	if strings.Count(shown, "\n") != 2 || obeyed(shown) {
		t.Errorf("the terminal gets %q", shown)
	}
}
