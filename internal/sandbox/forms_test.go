package sandbox

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/verify"
)

// verdict judges one answer of a task.
func verdict(t testing.TB, b *Box, options map[string]any, tests, answer string) datasets.Verdict {
	t.Helper()
	v, err := verify.New("code", options)
	if err != nil {
		t.Fatal(err)
	}
	return v.Verify(t.Context(), verify.Input{Content: answer, Tests: &tests, Runner: b})
}

func TestForms(t *testing.T) {
	b := box(t)
	const js = "const assert = require('node:assert');\nassert.deepStrictEqual(add([1, 2]), {sum: 3});\nassert.strictEqual(add([]).sum, 0);"
	const gotest = "import \"testing\"\n\nfunc TestAdd(t *testing.T) {\n\tif got, err := Add([]int{1, 2}); err != nil || got != 3 {\n\t\tt.Errorf(\"got %d\", got)\n\t}\n\tif _, err := Add(nil); err == nil {\n\t\tt.Error(\"no error\")\n\t}\n}"
	const goAdd = "package main\n\nimport \"errors\"\n\nfunc Add(x []int) (int, error) {\n\tif x == nil {\n\t\treturn 0, errors.New(\"nothing\")\n\t}\n\ts := 0\n\tfor _, n := range x {\n\t\ts += n\n\t}\n\treturn s, nil\n}\n"
	double := `[{"input": "2\n", "output": "4"}, {"input": "5", "output": "10\n"}]`
	command := `{"command": ["sh", "check.sh"], "files": {"check.sh": "x=$(printf 3 | ./run) && [ \"$x\" = 6 ]"}}`
	for _, tc := range []struct {
		name, language, tests, answer, want, reason string
	}{
		{"python asserts", "python", `["assert f(2) == 4", "assert f(3) == 9"]`, "Here:\n```python\ndef f(x):\n    return x * x\n```\nDone.", "pass", ""},
		{"python wrong", "python", `["assert f(2) == 4"]`, "def f(x): return x", "fail", "wrong: assert f(2) == 4"},
		{"python in place", "python", "a = [3, 1]\nsort(a)\nassert a == [1, 3]", "def sort(a): a.sort()", "pass", ""},
		{"python raises", "python", "try:\n    f()\nexcept ValueError:\n    pass\nelse:\n    assert False\nassert g() == 1", "def f(): raise ValueError('x')\ndef g(): return 1", "pass", ""},
		{"python class", "python", "s = Stack()\ns.push(3)\nassert s.pop() == 3", "class Stack:\n    def __init__(self): self.a = []\n    def push(self, x): self.a.append(x)\n    def pop(self): return self.a.pop()", "pass", ""},
		{"python callback", "python", "assert apply(lambda x: x + 1, 2) == 3", "def apply(f, x): return f(x)", "pass", ""},
		{"python generator", "python", "assert list(f(3)) == [0, 1, 2]\nassert f(3) != [0, 1, 2]", "def f(n): yield from range(n)", "pass", ""},
		{"python kinds", "python", "assert f(1, k={'a': (1, 2)}) == [{'a': (1, 2)}, {1, 2}, b'x', 1j, None, 10 ** 5000]", "def f(x, k): return [k, {1, 2}, b'x', 1j, None, 10 ** 5000]", "pass", ""},
		{"python unittest", "python", "import unittest\nclass T(unittest.TestCase):\n    def test_f(self):\n        self.assertEqual(f(1), 2)", "def f(x): return x + 1", "pass", ""},
		{"python unittest wrong", "python", "import unittest\nclass T(unittest.TestCase):\n    def test_f(self):\n        self.assertEqual(f(1), 2)", "def f(x): return x", "fail", "1 != 2"},
		{"python tests at fault", "python", "import nothing_like_this\nassert f() == 1", "def f(): return 1", "unknown", "the tests do not run"},
		{"python tests end", "python", "import sys\nassert f() == 1\nsys.exit(0)", "def f(): return 1", "unknown", "the tests ended themselves"},
		{"python no tests", "python", "x = 1", "def f(): return 1", "unknown", "asked the answer nothing"},
		{"python does not compile", "python", "assert f() == 1", "def f( return", "fail", "does not compile"},
		{"python own equality", "python", "assert P(1) == P(1)", "class P:\n    def __init__(self, x): self.x = x\n    def __eq__(self, o): return self.x == o.x", "unknown", "objects of the answer's own types"},
		{"python program", "python", double, "print(int(input()) * 2)", "pass", ""},
		{"python program wrong", "python", double, "print(4)", "fail", "case 2 of 2: printed something else"},
		{"shell program", "shell", double, "```bash\nread x\necho $((x * 2))\n```", "pass", ""},
		{"shell exit code", "shell", `{"cases": [{"args": ["7"], "stdout": "", "code": 7}]}`, "exit $1", "pass", ""},
		{"javascript program", "javascript", double, "console.log(2 * require('fs').readFileSync(0, 'utf8'))", "pass", ""},
		{"javascript asserts", "javascript", js, "function add(x) { return {sum: x.reduce((a, b) => a + b, 0)} }", "pass", ""},
		{"javascript module", "javascript", js, "const add = x => ({sum: x.reduce((a, b) => a + b, 0)})\nmodule.exports = {add}", "pass", ""},
		{"javascript wrong", "javascript", js, "function add(x) { return {sum: 1} }", "fail", "wrong"},
		{"javascript console.assert", "javascript", "console.assert(add(1) === 2)", "const add = x => x", "fail", "wrong"},
		{"javascript class", "javascript", "const s = new Stack(); s.push(3); require('assert').strictEqual(s.pop(), 3)", "class Stack { constructor() { this.a = [] } push(x) { this.a.push(x) } pop() { return this.a.pop() } }", "pass", ""},
		{"javascript does not compile", "javascript", js, "function add(", "fail", "does not compile"},
		{"go program", "go", double, "package main\n\nimport \"fmt\"\n\nfunc main() {\n\tvar x int\n\tfmt.Scan(&x)\n\tfmt.Println(2 * x)\n}", "pass", ""},
		{"go does not compile", "go", double, "package main\n\nfunc main() { x }", "fail", "does not compile"},
		{"go tests", "go", gotest, goAdd, "pass", ""},
		{"go tests wrong", "go", gotest, strings.Replace(goAdd, "s += n", "s -= n", 1), "fail", "a test failed"},
		{"go panics", "go", gotest, strings.Replace(goAdd, "s += n", "s += n / (n - n)", 1), "fail", "panicked"},
		{"go exits", "go", gotest, strings.Replace(goAdd, "\"errors\"", "(\n\"errors\"\n\"os\"\n)\nfunc init() { os.Exit(0) }", 1), "fail", "process ended"},
		{"command", "python", command, "print(int(input()) * 2)", "pass", ""},
		{"command says no", "python", command, "print(int(input()) * 3)", "fail", "the command ended with 1"},
		{"command is not there", "python", `{"command": ["no-such-checker"]}`, "print(1)", "unknown", "does not start"},
		{"no code", "python", "assert f()", " \n", "fail", "no code"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			v := verdict(t, b, map[string]any{"language": tc.language, "memory": "1GiB"}, tc.tests, tc.answer)
			if strings.Contains(v.Reason, "is not installed") && os.Getenv("STILLHOUSE_REQUIRE_SANDBOX") != "1" {
				t.Skip(v.Reason)
			}
			if v.Verdict != tc.want || !strings.Contains(v.Reason, tc.reason) {
				t.Errorf("%s: %q, want %s with %q", v.Verdict, v.Reason, tc.want, tc.reason)
			}
		})
	}
}

// TestHostileProgramsEndWithinTheirLimits: what an answer can do to the machine.
func TestHostileProgramsEndWithinTheirLimits(t *testing.T) {
	b := box(t)
	t.Setenv("STILLHOUSE_CANARY", "canary-of-the-environment")
	for _, tc := range []struct {
		name, body, want string
	}{
		{"infinite loop", "while True: pass", "fail"},
		{"sleep", "import time; time.sleep(1000)", "fail"},
		{"fork bomb", "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass", "fail"},
		{"threads", "import threading, time\ntry:\n    for _ in range(100000): threading.Thread(target=time.sleep, args=(100,), daemon=True).start()\nexcept RuntimeError: pass\nreturn 7", "pass"},
		{"10 GB of memory", "x = bytearray(10 << 30)\nfor i in range(0, len(x), 4096): x[i] = 1\nreturn 7", "fail"},
		{"memory of many processes", "import os, time\nfor _ in range(20):\n    if os.fork() == 0:\n        x = bytearray(100 << 20)\n        for i in range(0, len(x), 4096): x[i] = 1\n        time.sleep(100)\ntime.sleep(100)", "fail"},
		{"1 GB of output", "import os\nfor _ in range(1024):\n    for fd in range(1, 20):\n        try: os.write(fd, b'x' * (1 << 20))\n        except OSError: pass\nreturn 7", "fail"},
		{"1 GB of prints", "import sys\nfor _ in range(300): sys.stdout.write('x' * (1 << 20))\nreturn 7", "pass"},
		{"a filled /tmp", "import errno\ntry:\n    with open('/tmp/x', 'wb') as f:\n        while True: f.write(b'x' * (1 << 20))\nexcept OSError as e: return 7 if e.errno in (errno.ENOSPC, errno.EFBIG) else 0", "pass"},
		{"many files", "n = 0\ntry:\n    while True:\n        n += 1\n        with open('/tmp/%d' % n, 'wb') as f: f.write(b'x' * (1 << 20))\nexcept OSError: return 7 if n <= 65 else n", "pass"},
		{"/dev/shm", "try:\n    with open('/dev/shm/x', 'wb') as f: f.write(b'x' * (1 << 20))\nexcept OSError: return 7", "pass"},
		{"nothing else to write to", "import os, glob\nfor d in glob.glob('/*') + glob.glob('/*/*') + glob.glob('/dev/*/*'):\n    if os.path.isdir(d) and not d.startswith(('/tmp', '/proc')):\n        try: open(d + '/x', 'w'); return d\n        except OSError: pass\nreturn 7", "pass"},
		{"the home folders", "import os\nreturn [d for d in ('/root', '/home', '/work', '/var', '/mnt', '/sys', '/run', '/etc/passwd') if os.path.exists(d)] or 7", "pass"},
		{"the environment", "import os\nreturn 7 if 'canary' not in str(os.environ) + open('/proc/self/environ').read() and not [p for p in os.listdir('/proc') if p.isdigit() and int(p) > 60] else 0", "pass"},
		{"descriptors", "import os\nn = []\nfor fd in range(256):\n    try: n.append((fd, os.readlink('/proc/self/fd/%d' % fd)))\n    except OSError: pass\nreturn 7 if all(p.startswith(('pipe:', '/dev/null', '/proc')) for _, p in n) and sum(p.startswith('pipe:') for _, p in n) == 2 else n[3:]", "pass"},
		{"a socket", "import socket\ntry:\n    s = socket.create_connection(('127.0.0.1', 22), 1)\n    return 'connected'\nexcept OSError: pass\ntry:\n    socket.getaddrinfo('example.com', 80)\n    return 'resolved'\nexcept OSError: return 7", "pass"},
		{"other users", "import os\ntry:\n    os.setuid(0)\n    return 'root'\nexcept OSError: return 7 if os.getuid() == 1000 else os.getuid()", "pass"},
		{"namespaces", "import ctypes\nreturn 7 if ctypes.CDLL(None).unshare(0x10000000) == -1 else 'a namespace'", "pass"},
		{"other processes", "import os, signal\nfor p in range(2, 70000):\n    if p == os.getpid(): continue\n    try: os.kill(p, signal.SIGKILL)\n    except OSError: pass\nreturn 7", "pass"},
		{"core files", "import resource\nreturn 7 if resource.getrlimit(resource.RLIMIT_CORE) == (0, 0) else 0", "pass"},
		{"a crash", "import ctypes\nctypes.string_at(0)", "fail"},
		{"a grandchild holds the pipes", "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        time.sleep(1000)\n    os._exit(0)\nos._exit(0)", "fail"},
		{"a deep value", "x = []\nfor _ in range(100000): x = [x]\nreturn x", "fail"},
		{"a large value", "return 'x' * (100 << 20)", "fail"},
		{"an endless iterator", "def g():\n    while True: yield 1\nreturn g()", "fail"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			answer := "def f():\n    " + strings.ReplaceAll(tc.body, "\n", "\n    ")
			began := time.Now()
			v := verdict(t, b, map[string]any{"language": "python", "timeout": "500ms", "memory": "256MiB"}, "got = f()\nassert got == 7, got", answer)
			if v.Verdict != tc.want {
				t.Errorf("%s: %q, want %s", v.Verdict, v.Reason, tc.want)
			}
			if took := time.Since(began); took > 60*time.Second {
				t.Errorf("took %s", took)
			}
			t.Logf("%s: %s", v.Verdict, v.Reason)
		})
	}
}
