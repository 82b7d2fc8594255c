# The answer's side: it runs the answer's code and does what the other side
# asks. Nothing here is secret and nothing here is believed.
import os, operator, builtins

def main():
    r, w = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    with open("/box/answer.json" if len(sys.argv) < 2 else sys.argv[1], encoding="utf-8") as f:
        job = loads(f.read())
    ns = {"__name__": "answer", "__builtins__": builtins}
    objects = []

    def ref(v):
        objects.append(v)
        return {"t": "ref", "v": len(objects) - 1, "n": type(v).__name__}

    def special(d):
        if d["t"] == "ref":
            return objects[d["v"]]
        if d["t"] == "name":
            return ns[d["v"]]
        if d["t"] == "fn":
            return lambda *a: back(d["v"], a)
        raise TooMuch("a value of an unknown kind")

    def back(number, args):
        send(w, {"back": number, "a": [encode(x, ref) for x in args]})
        got = receive(r)
        if "error" in got:
            raise Exception(got["error"])
        return decode(got["v"], special)

    def failure(e):
        if not isinstance(e, Exception):
            return {"exit": type(e).__name__}
        return {"error": [c.__name__ for c in type(e).__mro__], "text": str(e)[:1000]}

    def load():
        error = None
        for source in sources(job):
            try:
                code = compile(source, "answer.py", "exec", dont_inherit=True)
            except (SyntaxError, ValueError, RecursionError, MemoryError) as e:
                error = error or e
                continue
            try:
                exec(code, ns)
            except BaseException as e:
                return dict(failure(e), loading=True)
            return {"v": None}
        return {"broken": "%s: %s" % (type(error).__name__, error)}

    def do(q):
        op = q["op"]
        target = decode(q["on"], special)
        args = [decode(x, special) for x in q.get("a", [])]
        if op == "call":
            before = [encode(x, ref) if type(x) in MUTABLE else None for x in args]
            kwargs = {k: decode(x, special) for k, x in q.get("k", {}).items()}
            out = {"v": encode(target(*args, **kwargs), ref)}
            after = [encode(x, ref) if type(x) in MUTABLE else None for x in args]
            if before != after:
                out["args"] = after
            return out
        if op == "get":
            return {"v": encode(getattr(target, q["name"]), ref)}
        if op == "set":
            setattr(target, q["name"], args[0])
            return {"v": None}
        return {"v": encode(OPS[op](target, *args), ref)}

    try:
        send(w, load())
    except BaseException:
        os._exit(1)
    while True:
        try:
            q = receive(r)
        except BaseException:
            os._exit(0)
        try:
            out = do(q)
            send(w, out)
        except BaseException as e:
            try:
                send(w, failure(e))
            except BaseException:
                os._exit(1)

MUTABLE = (list, dict, set, bytearray)
OPS = {"eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
       "len": len, "iter": iter, "list": lambda x: iter(list(x)), "next": next, "str": str, "repr": repr, "bool": bool, "contains": operator.contains,
       "item": operator.getitem, "is": lambda cls, x: isinstance(x, cls)}

def sources(job):
    """What the answer may mean, the likeliest first: a whole program, which may
    lean on what the prompt defines, or the rest of the prompt's function."""
    source, prompt, entry = job["source"], job["prompt"], job["entry"]
    whole = defines(source, entry)
    if prompt and defined(prompt) is not None:
        if whole:
            yield prompt.rstrip() + "\n\n\n" + source
    if whole or not prompt:
        yield source
    if prompt:
        rest = source if source.strip() else "    pass"
        yield prompt.rstrip("\n") + "\n" + rest
        lines = rest.lstrip("\n")
        if lines[:1] not in (" ", "\t"):  # the first line has often lost its indent
            yield prompt.rstrip("\n") + "\n    " + lines
            yield prompt.rstrip("\n") + "\n" + "".join("    " + l for l in lines.splitlines(True))
    if not whole and prompt:
        yield source

def defined(source):
    try:
        tree = parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    names = set()
    for node in tree.body:
        if isinstance(node, (_ast.FunctionDef, _ast.AsyncFunctionDef, _ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, _ast.Assign):
            names.update(t.id for t in node.targets if isinstance(t, _ast.Name))
        elif isinstance(node, (_ast.Import, _ast.ImportFrom)):
            names.update((a.asname or a.name).split(".")[0] for a in node.names)
    return names

def defines(source, entry):
    names = defined(source)
    return names is not None and (not entry or entry in names)

main()
