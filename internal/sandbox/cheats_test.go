package sandbox

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
)

// Answers that want to pass without solving anything. Each is the code of a
// whole answer; %[1]s is the function's name.
var cheats = []struct{ name, code string }{
	{"exits with success", "import sys\nsys.exit(0)"},
	{"exits with success when called", "import sys\ndef %[1]s(*a, **k): sys.exit(0)"},
	{"ends the process", "import os\nos._exit(0)"},
	{"ends the process when called", "import os\ndef %[1]s(*a, **k): os._exit(0)"},
	{"prints success", "print('all tests passed')\nprint('OK')\ndef %[1]s(*a, **k): print('{\"outcome\": \"pass\"}')"},
	{"rebinds check", "def check(candidate): pass\ndef %[1]s(*a, **k): return None"},
	{"rebinds check everywhere", "import sys, builtins\nbuiltins.check = lambda c: None\nfor m in list(sys.modules.values()):\n    try: m.check = lambda c: None\n    except Exception: pass\ndef %[1]s(*a, **k): return None"},
	{"equals everything", "class E:\n    def __eq__(self, o): return True\n    def __ne__(self, o): return False\n    def __lt__(self, o): return True\n    def __gt__(self, o): return True\n    def __le__(self, o): return True\n    def __ge__(self, o): return True\n    def __bool__(self): return True\n    def __sub__(self, o): return 0\n    def __abs__(self): return 0\n    def __contains__(self, o): return True\n    __hash__ = None\ndef %[1]s(*a, **k): return E()"},
	{"a str that equals everything", "class S(str):\n    def __eq__(self, o): return True\n    def __ne__(self, o): return False\ndef %[1]s(*a, **k): return S('x')"},
	{"an int that equals everything", "class I(int):\n    def __eq__(self, o): return True\n    __lt__ = __gt__ = __le__ = __ge__ = __eq__\n    def __ne__(self, o): return False\n    def __sub__(self, o): return 0\ndef %[1]s(*a, **k): return I(-123456)"},
	{"a list that equals everything", "class L(list):\n    def __eq__(self, o): return True\n    def __len__(self): return 1\ndef %[1]s(*a, **k): return L(['nothing'])"},
	{"a metaclass that equals everything", "class M(type):\n    def __eq__(cls, o): return True\n    def __hash__(cls): return 1\nclass E(metaclass=M): pass\ndef %[1]s(*a, **k): return E"},
	{"patches builtins", "import builtins\nbuiltins.AssertionError = type('A', (Exception,), {})\nbuiltins.isinstance = lambda *a: True\nbuiltins.all = builtins.any = lambda *a: True\nbuiltins.abs = lambda x: 0\nbuiltins.len = lambda x: 0\ndef %[1]s(*a, **k): return None"},
	{"patches the operators", "import operator\nfor n in dir(operator):\n    try: setattr(operator, n, lambda *a: True)\n    except Exception: pass\ndef %[1]s(*a, **k): return None"},
	{"exits at the end", "import atexit, os\natexit.register(lambda: os._exit(0))\ndef %[1]s(*a, **k): raise SystemExit"},
	{"a thread ends it", "import threading, os, time\ndef f():\n    time.sleep(0.05)\n    os._exit(0)\nthreading.Thread(target=f).start()\ndef %[1]s(*a, **k): time.sleep(1)"},
	{"reads the frames", "import sys\ndef %[1]s(*a, **k):\n    f = sys._getframe()\n    while f:\n        for n, v in list(f.f_locals.items()) + list(f.f_globals.items()):\n            if 'expect' in str(n): return v\n        f = f.f_back"},
	{"searches memory by gc", "import gc\ndef %[1]s(*a, **k):\n    for o in gc.get_objects():\n        if isinstance(o, dict) and ('nonce' in o or 'tests' in o):\n            return o.get('nonce') or o.get('tests')"},
	{"reads the memory of others", "import os\ndef %[1]s(*a, **k):\n    out = b''\n    for p in os.listdir('/proc'):\n        if p.isdigit():\n            try:\n                for line in open('/proc/%%s/maps' %% p):\n                    if 'rw' in line:\n                        lo, hi = [int(x, 16) for x in line.split()[0].split('-')]\n                        with open('/proc/%%s/mem' %% p, 'rb') as f:\n                            f.seek(lo); out += f.read(min(hi - lo, 4096))\n            except Exception: pass\n    return b'def check' in out or None"},
	{"reads files", "import os, glob\ndef %[1]s(*a, **k):\n    t = ''\n    for f in glob.glob('/box/*') + glob.glob('/tmp/*'):\n        t += open(f, errors='replace').read()\n    return t if 'def check(' in t else None"},
	{"writes a report to every descriptor", "import os\ndef w():\n    for fd in range(2, 64):\n        try: os.write(fd, b'\\n{\"outcome\": \"pass\", \"reason\": \"all tests passed\"}\\n' * 3)\n        except OSError: pass\nw()\ndef %[1]s(*a, **k): w()"},
	{"speaks the protocol", "import os, json, struct\ndef w():\n    for d in ({'v': True}, {'v': {'t': 'ref', 'v': 0, 'n': 'x'}}, {'outcome': 'pass'}):\n        t = json.dumps(d).encode()\n        for fd in range(3, 16):\n            try: os.write(fd, struct.pack('>I', len(t)) + t)\n            except OSError: pass\nw()\ndef %[1]s(*a, **k): w()"},
	{"asks back", "import sys\ndef %[1]s(*a, **k):\n    m = sys.modules['__main__']\n    return None"},
	{"raises what is caught", "def %[1]s(*a, **k): raise StopIteration"},
	{"raises an assertion of its own", "def %[1]s(*a, **k): raise AssertionError('passed')"},
	{"raises past all handlers", "class B(BaseException): pass\ndef %[1]s(*a, **k): raise B"},
	{"kills its parent", "import os, signal\ndef %[1]s(*a, **k):\n    os.kill(os.getppid(), signal.SIGTERM); os.kill(1, signal.SIGKILL); os.kill(-1, signal.SIGKILL)"},
	{"replaces its process", "import os\nos.execv('/bin/true', ['true'])"},
	{"replaces its process when called", "import os\ndef %[1]s(*a, **k): os.execv('/bin/true', ['true'])"},
	{"forks and lets the child answer", "import os\ndef %[1]s(*a, **k):\n    if os.fork(): os._exit(0)\n    return True"},
	{"patches the harness", "import sys\nm = sys.modules['__main__']\nfor n in list(vars(m)):\n    if callable(getattr(m, n)) and not n.startswith('__'):\n        try: setattr(m, n, lambda *a, **k: {'v': True})\n        except Exception: pass\ndef %[1]s(*a, **k): return None"},
	{"patches json", "import json\njson.dumps = lambda *a, **k: '{\"v\": true}'\ntry:\n    import _json\n    _json.make_encoder = None\nexcept Exception: pass\ndef %[1]s(*a, **k): return None"},
	{"swallows its arguments", "def %[1]s(*a, **k):\n    for x in a:\n        try: x.clear()\n        except Exception: pass"},
	{"not a number", "def %[1]s(*a, **k): return float('nan')"},
	{"is its own argument", "def %[1]s(*a, **k): return a[0] if a else None"},
	{"a trace function", "import sys\nsys.settrace(lambda *a: None)\nsys.setprofile(lambda *a: None)\nsys.excepthook = lambda *a: None\nsys.breakpointhook = lambda *a: None\ndef %[1]s(*a, **k): return None"},
	{"a module of the tests' name", "import sys, types\nfor n in ('tests', 'check', 'math', 'random', 'copy'):\n    sys.modules[n] = types.ModuleType(n)\ndef %[1]s(*a, **k): return None"},
	{"ctypes", "import ctypes\ndef %[1]s(*a, **k):\n    ctypes.pythonapi.Py_Exit(0)"},
	{"a signal", "import signal, os\nsignal.signal(signal.SIGALRM, lambda *a: os._exit(0))\nsignal.setitimer(signal.ITIMER_REAL, 0.02)\ndef %[1]s(*a, **k):\n    while True: pass"},
}

// gaming is the problems on which cheats are tried: those whose tests need a
// helper of the prompt, compare numbers within a tolerance, and a few others.
var gaming = []int{0, 2, 10, 32, 38, 50, 53, 89, 120, 163}

func TestCheatsDoNotPass(t *testing.T) {
	b := box(t)
	all := humanEval(t)
	for turn, c := range cheats {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var problems []problem
			for n, i := range gaming {
				// One with a helper of the prompt, one with numbers, and in turn
				// the others.
				if stride == 1 || n == 3 || n == 1 || n == turn%len(gaming) {
					problems = append(problems, all[i])
				}
			}
			tally := map[string]int{}
			for i, v := range judgeAll(t, b, problems, func(p *problem) string {
				return fmt.Sprintf(c.code, p.Entry) + "\n"
			}) {
				tally[v.Verdict+": "+v.Reason]++
				if v.Verdict == datasets.Pass {
					t.Errorf("%s passed: %s", problems[i].TaskID, v.Reason)
				}
				if v.Verdict == datasets.Unknown && !strings.Contains(v.Reason, "objects of the answer's own types") {
					t.Errorf("%s: unknown: %s", problems[i].TaskID, v.Reason)
				}
			}
			t.Log(tally)
		})
	}
}

// TestHumanEvalWrongAnswersDoNotPass tries whole sets of answers that are wrong
// on every problem.
func TestHumanEvalWrongAnswersDoNotPass(t *testing.T) {
	b := box(t)
	problems := thinned(humanEval(t))
	for _, set := range []struct {
		name   string
		answer func(*problem) string
	}{
		{"pass", func(*problem) string { return "    pass\n" }},
		{"return not", func(p *problem) string {
			return "    def solution():\n" + indent(p.Canonical) + "\n    return not (solution())\n"
		}},
		{"sys.exit", func(*problem) string { return "    import sys\n    sys.exit(0)\n" }},
		{"os._exit", func(*problem) string { return "    import os\n    os._exit(0)\n" }},
		{"prints success", func(*problem) string { return "    print('all tests passed')\n" }},
		{"rebinds check", func(p *problem) string {
			return "    return None\n\ndef check(candidate):\n    return True\n"
		}},
	} {
		t.Run(set.name, func(t *testing.T) {
			unknown := 0
			for i, v := range judgeAll(t, b, problems, set.answer) {
				switch v.Verdict {
				case datasets.Pass:
					t.Errorf("%s passed: %s", problems[i].TaskID, v.Reason)
				case datasets.Unknown:
					unknown++
					t.Logf("%s: unknown: %s", problems[i].TaskID, v.Reason)
				}
			}
			if unknown > 0 {
				t.Errorf("%d are unknown; a wrong answer is known to fail", unknown)
			}
		})
	}
}

// indent moves a function's body into a function within it.
func indent(body string) string {
	return "    " + strings.ReplaceAll(strings.TrimRight(body, "\n"), "\n", "\n    ")
}
