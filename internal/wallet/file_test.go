package wallet

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func open(t *testing.T, path, boot string) *file {
	t.Helper()
	f, err := openFile(path, boot)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(f.abandon(), f.f.Close()) }) // closed already in most tests
	return f
}

// left writes a file of a process that was killed.
func left(t *testing.T, path, boot string) {
	t.Helper()
	f := open(t, path, boot)
	if err := f.enter(7); err != nil {
		t.Fatal(err)
	}
	for _, teacher := range []string{"kimi-k3", "größer"} {
		i, err := f.entry(teacher)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(f.add(i, 100, 100), f.add(i, 50, 50), f.add(i, -90, -100)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.number(); err != nil {
		t.Fatal(err)
	}
}

func TestFileOutlivesItsProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "w")
	left(t, path, "boot")
	f := open(t, path, "boot")
	if f.period != 7 || f.seq != 1 || len(f.entries) != 2 {
		t.Fatalf("%+v", f)
	}
	if f.lost != 100 {
		t.Errorf("lost %d, want what was held: 100", f.lost)
	}
	for _, e := range f.entries {
		if e.charged != 60 || e.held != 0 {
			t.Errorf("%+v, want 60 charged and nothing held", e)
		}
	}
	if f.entries[1].teacher != "größer" {
		t.Errorf("teacher %q", f.entries[1].teacher)
	}
}

func TestFileOfAnotherBootIsNotTrusted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "w")
	left(t, path, "boot")
	if f := open(t, path, "another"); f.period != 0 || len(f.entries) != 0 {
		t.Errorf("%+v", f)
	}
	unknown := filepath.Join(t.TempDir(), "w")
	left(t, unknown, "")
	if f := open(t, unknown, ""); f.period != 0 {
		t.Errorf("without a boot id nothing can be known, and the file is trusted: %+v", f)
	}
	closed := filepath.Join(t.TempDir(), "w")
	left(t, closed, "boot")
	if err := open(t, closed, "boot").close("boot"); err != nil {
		t.Fatal(err)
	}
	if f := open(t, closed, "another"); f.period != 7 || len(f.entries) != 2 {
		t.Errorf("what was closed and synced is not trusted after a restart of the machine: %+v", f)
	}
	// It is only as good as that until it is opened again.
	if f := open(t, closed, "a third"); f.period != 0 {
		t.Errorf("%+v", f)
	}
}

func TestDamagedFilesAreBegunAnew(t *testing.T) {
	whole := filepath.Join(t.TempDir(), "w")
	left(t, whole, "boot")
	text, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"empty": nil, "short": text[:fileSize-1], "no magic": append([]byte("X"), text[1:]...),
		"an id too long": func() []byte {
			d := append([]byte(nil), text...)
			putInt(d, headerSize+offID, idBytes+1)
			return d
		}(),
	} {
		path := filepath.Join(t.TempDir(), "w")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if f := open(t, path, "boot"); f.period != 0 || len(f.entries) != 0 {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

func TestBeginKeepsWhatIsUnderWay(t *testing.T) {
	f := open(t, filepath.Join(t.TempDir(), "w"), "boot")
	i, err := f.entry("t")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.add(i, 300, 300), f.add(i, -50, -100), f.begin(9)); err != nil {
		t.Fatal(err)
	}
	if e := f.entries[i]; e.charged != 200 || e.held != 200 || f.period != 9 {
		t.Errorf("%+v in account %d", e, f.period)
	}
}

func TestFileCountsSoManyTeachers(t *testing.T) {
	f := open(t, filepath.Join(t.TempDir(), "w"), "boot")
	if _, err := f.entry(strings.Repeat("x", idBytes+1)); err == nil {
		t.Error("an id that does not fit was taken")
	}
	for i := range mostIDs {
		if _, err := f.entry(strings.Repeat("x", 1+i%idBytes) + string(rune('a'+i/idBytes))); err != nil && i%idBytes != idBytes-1 {
			t.Fatal(err)
		}
	}
	for i := range 3 {
		if _, err := f.entry(strings.Repeat("y", i+1)); err != nil && !strings.Contains(err.Error(), "counts 128 teachers already") {
			t.Error(err)
		}
	}
	if len(f.entries) > mostIDs {
		t.Errorf("%d entries", len(f.entries))
	}
}

// A disk that fails under the map, here a file that was cut off, is an error and
// no crash.
func TestAFailingDiskIsAnError(t *testing.T) {
	f := open(t, filepath.Join(t.TempDir(), "w"), "boot")
	if f.mapped == nil {
		t.Skip("this filesystem maps no files")
	}
	if err := f.f.Truncate(0); err != nil {
		t.Fatal(err)
	}
	if _, err := f.entry("t"); err == nil {
		t.Error("it was stored where there is nothing")
	}
}

func FuzzFile(f *testing.F) {
	path := filepath.Join(f.TempDir(), "w")
	w, err := openFile(path, "boot")
	if err != nil {
		f.Fatal(err)
	}
	if _, err := w.entry("teacher"); err != nil {
		f.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text[:headerSize+2*entrySize])
	f.Fuzz(func(t *testing.T, data []byte) {
		whole := make([]byte, fileSize)
		copy(whole, data)
		var got file
		if !got.read(whole, "boot") {
			return
		}
		if len(got.entries) > mostIDs {
			t.Errorf("%d entries", len(got.entries))
		}
		for _, e := range got.entries {
			if len(e.teacher) > idBytes {
				t.Errorf("id of %d bytes", len(e.teacher))
			}
		}
	})
}
