package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
)

// TestForgedPasses: wrong answers that reach for the words which the tests are
// written in, or for the harness between them and the tests.
func TestForgedPasses(t *testing.T) {
	b := box(t)
	const panics = `import "testing"

func TestF(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("f does not panic")
		}
	}()
	F(-1)
}`
	const largest = `import "testing"

func TestF(t *testing.T) {
	if max(F(1), 3) != 7 {
		t.Error("not the largest")
	}
}`
	const subtests = `import "testing"

func TestF(t *testing.T) {
	t.Run("one", func(t *testing.T) {
		if F(1) != 7 {
			t.Error("wrong")
		}
	})
}`
	for _, tc := range []struct{ name, language, tests, answer, want string }{
		{"go: recover is the answer's", "go", panics, "package main\n\nimport \"errors\"\n\nvar n int\n\nfunc F(x int) int { return 0 }\n\nfunc recover() error {\n\tif n++; n == 2 {\n\t\treturn errors.New(\"x\")\n\t}\n\treturn nil\n}\n", "fail"},
		{"go: max is the answer's", "go", largest, "package main\n\nfunc F(x int) int { return 0 }\n\nfunc max(a, b int) int { return 7 }\n", "fail"},
		{"go: an honest max", "go", largest, "package main\n\nfunc F(x int) int { return 7 }\n\nfunc max(a, b int) int {\n\tif a > b {\n\t\treturn a\n\t}\n\treturn b\n}\n", "pass"},
		{"go: panics in a subtest", "go", subtests, "package main\n\nfunc F(x int) int { panic(\"x\") }\n", "fail"},
		{"go: exits in a subtest", "go", subtests, "package main\n\nimport \"os\"\n\nfunc F(x int) int { os.Exit(0); return 0 }\n", "fail"},
		{"javascript: tests that go on", "javascript", "const assert = require('assert');\n(async () => { assert.strictEqual(await f(1), 2) })()", "async function f() { return 99 }", "unknown"},
		{"javascript: tests that go on, at once", "javascript", "const assert = require('assert');\n(async () => { const x = f(1); await null; assert.strictEqual(x, 2) })()", "function f() { return 99 }", "unknown"},
		{"javascript: an asynchronous check", "javascript", "async function check(f) { const x = f(1); await null; if (x !== 2) throw new Error('wrong') }", "function f() { return 99 }\nfunction candidate() { return 1 }", "unknown"},
		{"javascript: tests by a clock", "javascript", "const x = f(1); setTimeout(() => { if (x !== 2) throw new Error('wrong') }, 1)", "function f() { return 99 }", "unknown"},
		{"javascript: assert is the answer's", "javascript", "assert(f(1) === 2); assert.equal(f(1), 2)", "function f() { return 99 }\nfunction assert() {}\nassert.equal = () => {}", "fail"},
		{"javascript: an honest answer to it", "javascript", "assert(f(1) === 2); assert.equal(f(1), 2)", "function f() { return 2 }", "pass"},
		{"javascript: test is the answer's", "javascript", "test('f', () => { expect(f(1)).toBe(2) })", "function f() { return 99 }\nfunction test() {}\nfunction expect() { return {toBe() {}} }", "unknown"},
		{"javascript: the harness's list", "javascript", "const assert = require('assert');\nassert.strictEqual(f(x => x + 1), 2)", "function f(g) { const fs = require('fs'); const d = Buffer.from(JSON.stringify({back: 'toString', a: []})); const n = Buffer.alloc(4); n.writeUInt32BE(d.length); fs.writeSync(1, n); fs.writeSync(1, d); const h = Buffer.alloc(4); fs.readSync(0, h, 0, 4); const r = Buffer.alloc(h.readUInt32BE()); fs.readSync(0, r, 0, r.length); return r.toString().includes('x + 1') ? 2 : 0 }", "fail"},
		{"python: a module is the answer's", "python", "assert math.isclose(f(1), 2)\nassert re.match('a', g())", "class math: isclose = lambda *a: True\nclass re: match = lambda *a: True\ndef f(x): return 99\ndef g(): return 'b'", "fail"},
		{"python: an honest answer to it", "python", "assert math.isclose(f(1), 2)", "import math\ndef f(x): return math.sqrt(4)", "pass"},
		{"python: np is the answer's", "python", "assert np.allclose(f(1), 2)", "class np: allclose = lambda *a: True\ndef f(x): return 99", "unknown or fail"},
		{"python: pytest is the answer's", "python", "with pytest.raises(ValueError): f(1)\nassert f(2) == pytest.approx(3)", "class pytest: raises = lambda *a: None\ndef f(x): return 99", "unknown or fail"},
		{"python: tests that nobody waits for", "python", "def test_a(): assert f(1) != 5\nasync def test_b(): assert f(1) == 2", "def f(x): return 99", "unknown"},
		{"python: a check that nobody waits for", "python", "f(1)\nasync def check(c): assert c(1) == 2", "def f(x): return 99", "unknown"},
		{"python: an error in unittest", "python", "import unittest\nclass T(unittest.TestCase):\n    def test_f(self):\n        self.assertEqual(f(2), 3)", "def f(x): raise ValueError('x')", "fail"},
		{"python: an error before a fault of unittest's own", "python", "import unittest\nclass T(unittest.TestCase):\n    def setUpClass(): raise OSError('x')\n    def test_f(self):\n        self.assertEqual(f(2), 3)", "def f(x): return 3", "unknown"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			options := map[string]any{"language": tc.language, "memory": "1GiB"}
			if strings.Contains(tc.name, "check") {
				options["entry_point"] = "f"
			}
			v := verdict(t, b, options, tc.tests, tc.answer)
			if strings.Contains(v.Reason, "is not installed") && os.Getenv("STILLHOUSE_REQUIRE_SANDBOX") != "1" {
				t.Skip(v.Reason)
			}
			if !strings.Contains(tc.want, v.Verdict) {
				t.Errorf("%s: %q, want %s", v.Verdict, v.Reason, tc.want)
			}
			if tc.want != datasets.Pass {
				t.Log(v.Verdict, v.Reason)
			}
		})
	}
}

// TestABubblewrapThatDoesNotWork is told what may be the matter.
func TestABubblewrapThatDoesNotWork(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(d, 0o755); err != nil { // for the slots' users
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
	for name, script := range map[string]string{
		"an old one":       "#!/bin/sh\necho 'bwrap: Unknown option --disable-userns' >&2\nexit 1\n",
		"a forbidden one":  "#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n",
		"one that is none": "#!/bin/sh\nexit 0\n",
		"a broken file":    "\x7fELF",
	} {
		if err := os.WriteFile(dir+"/bwrap", []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		_, err := Open(t.Context(), Options{Kinds: []Kind{Bubblewrap}})
		if err == nil || !strings.Contains(err.Error(), "--unsafe-code") {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if script[0] == '#' && !strings.Contains(err.Error(), "older than 0.8") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
