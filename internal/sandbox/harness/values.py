# Values as plain data, and frames on a pipe. Both sides of a run read this
# first; neither believes the other.
import sys

# Programs are started by the thousand, and json alone takes as long to import
# as Python to start. Its C half stands without the other.
try:
    import _json

    class Context:
        strict, object_hook, object_pairs_hook, parse_float, parse_int = True, None, None, float, int
        parse_constant = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}.__getitem__
        memo = {}

    _encode = _json.make_encoder(None, None, _json.encode_basestring_ascii, None, ":", ",", False, False, True)
    _scan = _json.make_scanner(Context)

    def dumps(d):
        return "".join(_encode(d, 0))

    def loads(text):
        try:
            return _scan(text, 0)[0]
        except StopIteration:
            raise ValueError("no JSON") from None

    _try = {"a": [1, 2.5, float("inf"), None, True, "\u20ac\"", -3, {}]}
    if loads(dumps(_try)) != _try:
        raise ValueError("another JSON")
except Exception:
    from json import dumps, loads

def nodes(tree):
    """All nodes of a syntax tree, as ast.walk gives them, without importing it."""
    todo = [tree]
    while todo:
        node = todo.pop()
        yield node
        for name in node._fields:
            v = getattr(node, name, None)
            for x in v if isinstance(v, list) else (v,):
                if isinstance(x, AST):
                    todo.append(x)

def parse(source):
    return compile(source, "source.py", "exec", 0x400, dont_inherit=True)  # ast.PyCF_ONLY_AST

import _ast
AST = _ast.AST

LIMIT = 16 << 20   # bytes of a frame
DEEP = 100         # levels of a value
MANY = 200_000     # items of an iterator

class TooMuch(Exception):
    pass

def encode(v, ref, deep=0):
    """v as JSON data. What is none of the plain types goes through ref."""
    if deep > DEEP:
        raise TooMuch("a value is too deep")
    t = type(v)
    if v is None or t is bool or t is str:
        return v
    if isinstance(v, bool):
        return bool(v)
    if isinstance(v, int):
        n = int.__index__(v)
        return n if -(1 << 62) < n < 1 << 62 else {"t": "int", "v": hex(n)}
    if isinstance(v, float):
        return float.__float__(v)
    if isinstance(v, str):
        return str.__str__(v)
    e = lambda x: encode(x, ref, deep + 1)
    if isinstance(v, list):
        return [e(x) for x in list.__iter__(v)]
    if isinstance(v, tuple):
        items = [e(x) for x in tuple.__iter__(v)]
        names = getattr(t, "_fields", None)
        if t is not tuple and isinstance(names, tuple) and len(names) == len(items):
            return {"t": "named", "n": t.__name__, "f": list(names), "v": items}
        return {"t": "tuple", "v": items}
    if "collections" in sys.modules and isinstance(v, sys.modules["collections"].Counter):
        return {"t": "counter", "v": [[e(k), e(x)] for k, x in dict.items(v)]}
    if isinstance(v, dict):
        return {"t": "dict", "v": [[e(k), e(x)] for k, x in dict.items(v)]}
    if isinstance(v, set):
        return {"t": "set", "v": [e(x) for x in set.__iter__(v)]}
    if isinstance(v, frozenset):
        return {"t": "frozenset", "v": [e(x) for x in frozenset.__iter__(v)]}
    if isinstance(v, bytes):
        return {"t": "bytes", "v": bytes.hex(v)}
    if isinstance(v, bytearray):
        return {"t": "bytearray", "v": bytearray.hex(v)}
    if isinstance(v, complex):
        return {"t": "complex", "v": [v.real, v.imag]}
    if t is range:
        return {"t": "range", "v": [e(v.start), e(v.stop), e(v.step)]}
    if t in ITERATORS:
        items = []
        for x in v:
            if len(items) == MANY:
                raise TooMuch("an iterator has too many items")
            items.append(e(x))
        return {"t": "iter", "v": items}
    kind = (t.__module__, t.__name__)
    if kind in (("decimal", "Decimal"), ("fractions", "Fraction")):
        return {"t": kind[1], "v": str(v)}
    return ref(v)

ITERATORS = {type(x for x in ()), map, filter, zip, enumerate, reversed, type(iter([])), type(iter(())),
             type(iter({})), type({}.keys()), type({}.values()), type({}.items()), type(iter("")), type(iter(set())), type(iter(range(0)))}

def decode(d, special=None, deep=0):
    """The value of JSON data. Its kinds are these and no others."""
    if deep > 2 * DEEP:
        raise TooMuch("a value is too deep")
    if d is None or isinstance(d, (bool, int, float, str)):
        return d
    c = lambda x: decode(x, special, deep + 1)
    if isinstance(d, list):
        return [c(x) for x in d]
    t, v = d["t"], d.get("v")
    if t == "int":
        return int(v, 16)
    if t == "tuple":
        return tuple(c(x) for x in v)
    if t in ("named", "counter"):
        import collections
    if t == "named":
        return collections.namedtuple(str(d["n"]), [str(f) for f in d["f"]])(*[c(x) for x in v])
    if t == "dict":
        return {c(k): c(x) for k, x in v}
    if t == "counter":
        return collections.Counter({c(k): c(x) for k, x in v})
    if t == "set":
        return set(c(x) for x in v)
    if t == "frozenset":
        return frozenset(c(x) for x in v)
    if t == "bytes":
        return bytes.fromhex(v)
    if t == "bytearray":
        return bytearray.fromhex(v)
    if t == "complex":
        return complex(float(v[0]), float(v[1]))
    if t == "range":
        return range(*[int(c(x)) for x in v])
    if t == "iter":
        return iter([c(x) for x in v])
    if t == "Decimal":
        import decimal
        return decimal.Decimal(str(v))
    if t == "Fraction":
        import fractions
        return fractions.Fraction(str(v))
    if special is not None:
        return special(d)
    raise TooMuch("a value of an unknown kind")

def send(w, d):
    data = dumps(d).encode()
    if len(data) > LIMIT:
        raise TooMuch("a value is too large")
    w.write(len(data).to_bytes(4, "big"))
    w.write(data)
    w.flush()

def receive(r):
    head = r.read(4)
    if len(head) < 4:
        raise EOFError
    n = int.from_bytes(head, "big")
    if n > LIMIT:
        raise TooMuch("a value is too large")
    data = r.read(n)
    if len(data) < n:
        raise EOFError
    return loads(data.decode())
