# The tests' side. The answer is in another process and another sandbox; here
# are stand-ins that ask it. Only plain values come back, so that whatever is
# compared here is compared by Python itself.
import os, builtins

class Ended(BaseException):
    """The answer's process is of no more use; no test can catch this away."""

class Broken(Exception):
    """The tests are at fault, not the answer."""

class Link:
    def __init__(self, r, w):
        self.r, self.w = r, w
        self.calls = 0      # that came back with a value
        self.raised = False # one came back with an error
        self.dead = None    # why the answer's process is of no more use
        self.own = False    # the answer's own objects decided a comparison
        self.functions = []

    def end(self, why):
        self.dead = self.dead or why
        raise Ended(why)

    def receive(self):
        try:
            return receive(self.r)
        except EOFError:
            self.end("the answer's process ended")
        except TooMuch as e:
            self.end(str(e))
        except (ValueError, RecursionError, UnicodeDecodeError):
            self.end("the answer sent what cannot be read")

    def encode(self, v):
        return encode(v, self.given)

    def given(self, v):
        if isinstance(v, Stand):
            return object.__getattribute__(v, "_on")
        if callable(v):
            self.functions.append(v)
            return {"t": "fn", "v": len(self.functions) - 1}
        raise Broken("the tests hand over a value of type " + type(v).__name__)

    def ask(self, q):
        if self.dead:
            raise Ended(self.dead)
        try:
            send(self.w, q)
        except BrokenPipeError:
            self.end("the answer's process ended")
        except TooMuch as e:
            raise Broken("the tests hand over what is too large") from e
        while True:
            got = self.receive()
            if type(got) is not dict:
                self.end("the answer sent what cannot be read")
            if "back" in got:
                self.back(got)
                continue
            return self.read(got)

    def back(self, got):
        try:
            f = self.functions[got["back"]]
            args = [decode(x, self.special) for x in got["a"]]
        except (KeyError, IndexError, TypeError, ValueError, AttributeError, TooMuch, RecursionError):
            self.end("the answer sent what cannot be read")
        try:
            out = {"v": self.encode(f(*args))}
        except Exception as e:
            out = {"error": "%s: %s" % (type(e).__name__, e)}
        try:
            send(self.w, out)
        except BrokenPipeError:
            self.end("the answer's process ended")

    def read(self, got):
        if "exit" in got:
            self.end("the answer ended itself with " + str(got["exit"])[:80])
        if "error" in got:
            self.raised = True
            raise self.error(got)
        try:
            value = decode(got["v"], self.special)
            args = [None if a is None else decode(a, self.special) for a in got.get("args", [])]
        except (KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError, TooMuch, RecursionError, MemoryError):
            self.end("the answer sent what cannot be read")
        self.calls += 1
        return value, args

    def error(self, got):
        names = got["error"] if isinstance(got["error"], list) else []
        text = str(got.get("text", ""))[:1000]
        for name in names:
            cls = getattr(builtins, name, None) if isinstance(name, str) else None
            if isinstance(cls, type) and issubclass(cls, Exception):
                try:
                    return cls(text)
                except Exception:
                    continue
        return Exception(text)

    def special(self, d):
        if d["t"] == "ref":
            return Stand(self, {"t": "ref", "v": int(d["v"])}, str(d.get("n"))[:80])
        raise TooMuch("a value of an unknown kind")

def plain(op, own=False):
    def ask(self, *args):
        link = object.__getattribute__(self, "_link")
        if own:
            # Whoever made the object says whether it is equal: that proves
            # nothing, so the run can no longer pass.
            link.own = True
        return link.ask({"op": op, "on": object.__getattribute__(self, "_on"), "a": [link.encode(a) for a in args]})[0]
    return ask

def truth(op):
    ask = plain(op, own=True)
    return lambda self, *args: bool(ask(self, *args))

class Stand:
    """Stands for something in the answer's process: a function, a class or an
    object of the answer's own."""
    def __init__(self, link, on, name):
        object.__setattr__(self, "_link", link)
        object.__setattr__(self, "_on", on)
        object.__setattr__(self, "__name__", name)

    def __call__(self, *args, **kwargs):
        link = object.__getattribute__(self, "_link")
        value, after = link.ask({"op": "call", "on": object.__getattribute__(self, "_on"),
                                 "a": [link.encode(a) for a in args], "k": {k: link.encode(v) for k, v in kwargs.items()}})
        for old, new in zip(args, after):
            if type(old) is list and type(new) is list or type(old) is bytearray and type(new) is bytearray:
                old[:] = new
            elif type(old) is dict and type(new) is dict or type(old) is set and type(new) is set:
                old.clear()
                old.update(new)
        return value

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        link = object.__getattribute__(self, "_link")
        return link.ask({"op": "get", "on": object.__getattribute__(self, "_on"), "name": name})[0]

    def __setattr__(self, name, value):
        link = object.__getattribute__(self, "_link")
        link.ask({"op": "set", "on": object.__getattribute__(self, "_on"), "name": name, "a": [link.encode(value)]})

    def __iter__(self):
        return iter(plain("list")(self))

    __next__ = plain("next")
    __len__ = plain("len")
    __str__ = plain("str")
    __repr__ = plain("repr")
    __getitem__ = plain("item")
    __eq__, __ne__ = truth("eq"), truth("ne")
    __lt__, __le__, __gt__, __ge__ = truth("lt"), truth("le"), truth("gt"), truth("ge")
    __bool__, __contains__ = truth("bool"), truth("contains")
    __instancecheck__ = truth("is")

    def __hash__(self):
        return id(self)

def last_function(source):
    for text in (source, source.rstrip() + "\n    pass\n"):
        try:
            tree = parse(text)
        except (SyntaxError, ValueError):
            continue
        names = [n.name for n in tree.body if isinstance(n, (_ast.FunctionDef, _ast.AsyncFunctionDef))]
        return names[-1] if names else ""
    return ""

def prepare(job, link, ns):
    """The names that tests find: the prompt's own, and stand-ins for the rest."""
    prompt, tests = job["prompt"], job["tests"]
    if prompt:
        for text in (prompt, prompt.rstrip() + "\n    pass\n"):
            try:
                code = compile(text, "prompt.py", "exec", dont_inherit=True)
            except (SyntaxError, ValueError):
                continue
            try:
                exec(code, ns)
            except Exception as e:
                raise Broken("the prompt's code does not run: %s: %s" % (type(e).__name__, e))
            break
    entry = job["entry"] or last_function(prompt)
    if entry:
        ns[entry] = Stand(link, {"t": "name", "v": entry}, entry)
    try:
        tree = parse(tests)
    except (SyntaxError, ValueError, RecursionError) as e:
        raise Broken("the tests do not compile: %s" % e)
    bound = {n.id for n in nodes(tree) if isinstance(n, _ast.Name) and not isinstance(n.ctx, _ast.Load)}
    bound |= {n.name for n in nodes(tree) if isinstance(n, (_ast.FunctionDef, _ast.ClassDef, _ast.AsyncFunctionDef))}
    bound |= {a.arg for a in nodes(tree) if isinstance(a, _ast.arg)}
    bound |= {(a.asname or a.name).split(".")[0] for n in nodes(tree) if isinstance(n, (_ast.Import, _ast.ImportFrom)) for a in n.names}
    for n in nodes(tree):
        if isinstance(n, _ast.Name) and n.id not in bound and n.id not in ns and not hasattr(builtins, n.id):
            ns[n.id] = module(n.id) if n.id in MODULES and n.id != entry else Stand(link, {"t": "name", "v": n.id}, n.id)
    return entry, compile(tree, "tests.py", "exec", dont_inherit=True)

# Modules that tests use without importing them. As the answer's they would
# prove what it likes.
ALIASES = {"np": "numpy", "pd": "pandas", "plt": "matplotlib.pyplot", "nx": "networkx"}
MODULES = set(ALIASES) | {"numpy", "pandas", "pytest", "scipy", "sympy", "torch", "sklearn", "networkx"} | set(getattr(sys, "stdlib_module_names", ("math", "re", "cmath", "collections", "itertools", "functools", "statistics")))

def module(name):
    import importlib
    try:
        return importlib.import_module(ALIASES.get(name, name))
    except Exception as e:
        raise Broken("the tests use %s, which they do not import and which is not here: %s" % (name, e)) from e

def awaited(got, name):
    """Complains of a test that has only begun when it returns."""
    if not isinstance(got, Stand) and any(hasattr(type(got), a) for a in ("__await__", "__anext__")):
        raise Broken("the tests' %s is asynchronous: nothing waits for it" % name)

def run(job, link):
    ns = {"__name__": "tests", "__builtins__": builtins}
    entry, code = prepare(job, link, ns)
    first = link.receive()
    if type(first) is not dict or "broken" in first:
        return "fail", "the answer does not compile: " + str(first.get("broken") if type(first) is dict else "")[:200]
    if "exit" in first:
        return "fail", "the answer ended itself with %s while it was loaded" % str(first["exit"])[:80]
    if "error" in first:
        e = link.error(first)
        return "fail", "the answer raised %s while it was loaded: %s" % (type(e).__name__, str(e)[:200])
    exec(code, ns)
    check = ns.get("check")
    if callable(check) and not isinstance(check, Stand):
        if not entry:
            raise Broken("the tests define check, but nothing names the function to check: give entry_point")
        awaited(check(ns[entry]), "check")
    else:
        for name, f in list(ns.items()):
            if name.startswith("test") and callable(f) and not isinstance(f, (Stand, type)) and getattr(f, "__module__", "") == "tests":
                awaited(f(), name)
        suites(ns)
    if link.calls == 0:
        raise Broken("the tests asked the answer nothing")
    return "pass", "all tests passed"

def suites(ns):
    if "unittest" not in sys.modules:
        return
    import unittest, io
    for v in list(ns.values()):
        if isinstance(v, type) and issubclass(v, unittest.TestCase) and v is not unittest.TestCase:
            suite = unittest.defaultTestLoader.loadTestsFromTestCase(v)
            got = unittest.TextTestRunner(stream=io.StringIO()).run(suite)
            for _, trace in got.errors + got.failures:
                raise AssertionError(trace.strip().splitlines()[-1])

def where(e):
    """The line of the tests that an exception came through."""
    line, t = 0, e.__traceback__
    while t is not None:
        if t.tb_frame.f_code.co_filename == "tests.py":
            line = t.tb_lineno
        t = t.tb_next
    return line

def main():
    r, w = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    report = os.dup(2)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    with open("/box/tests.json" if len(sys.argv) < 2 else sys.argv[1], encoding="utf-8") as f:
        job = loads(f.read())
    if "random" in job["tests"]:
        import random
        random.seed(0)  # the same tests for every answer
    link = Link(r, w)
    try:
        outcome, reason = run(job, link)
    except Ended as e:
        outcome, reason = "fail", str(e)
    except Broken as e:
        outcome, reason = "broken", str(e)
    except SystemExit:
        outcome, reason = "broken", "the tests ended themselves"
    except BaseException as e:
        lines = job["tests"].splitlines()
        n = where(e)
        line = lines[n - 1].strip()[:160] if 0 < n <= len(lines) else ""
        if isinstance(e, AssertionError):
            reason = "wrong: " + line + (" (%s)" % str(e)[:100] if str(e) else "")
        else:
            reason = "%s: %s, at: %s" % (type(e).__name__, str(e)[:160], line)
        # An error before the answer has said anything is the tests' own, unless
        # it is the answer's: then Python raised it out of a call, or unittest
        # has caught it and says so.
        outcome = "fail" if link.calls or asked(e) or link.raised and isinstance(e, AssertionError) else "broken"
    if link.dead and outcome != "broken":
        outcome, reason = "fail", link.dead
    if outcome == "pass" and link.own:
        outcome, reason = "own", "the tests compare objects of the answer's own types, and only the answer itself says that they are right"
    os.write(report, ("\n" + job["nonce"] + dumps({"outcome": outcome, "reason": reason}) + "\n").encode())
    os._exit(0)

def asked(e):
    t = e.__traceback__
    while t is not None:
        if t.tb_frame.f_code is Link.ask.__code__:
            return True
        t = t.tb_next
    return False

main()
