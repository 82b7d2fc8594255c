// The answer's side; see answer.py. Its pipes are descriptors 0 and 1, which
// nothing else here writes to: the console goes nowhere.
const job = JSON.parse(fs.readFileSync(process.argv[2] || '/box/answer.json', 'utf8'))
const objects = []
const raw = { send, receive }
const stringify = JSON.stringify

function ref(v) {
  objects.push(v)
  return { t: 'ref', v: objects.length - 1 }
}

let names = () => undefined

function special(d) {
  if (d.t === 'ref') return objects[d.v]
  if (d.t === 'name') return names(d.v)
  if (d.t === 'fn') return (...a) => back(d.v, a)
  throw new TooMuch('a value of an unknown kind')
}

function back(number, args) {
  raw.send(1, { back: number, a: args.map(x => encode(x, ref)) })
  const got = raw.receive(0)
  if ('error' in got) throw new Error(got.error)
  return decode(got.v, special)
}

function failure(e) {
  let name = 'Error', text = ''
  try {
    name = String(e?.name ?? typeof e)
    text = String(e?.message ?? e).slice(0, 1000)
  } catch {}
  return { error: [name], text }
}

function sources() {
  const { source, prompt, entry } = job
  const whole = !entry || new RegExp('(function\\*?|const|let|var|class)\\s+' + entry.replace(/[^\w]/g, '\\$&') + '\\b').test(source)
  const out = []
  if (whole || !prompt) out.push(source)
  if (prompt) out.push(prompt + '\n' + source, prompt + '\n' + source + '\n}')
  if (!whole && prompt) out.push(source)
  return out
}

function load() {
  const vm = require('node:vm')
  const quiet = new Proxy({}, { get: () => () => {} })
  let first
  for (const source of sources()) {
    // Names that the answer declares are in the scope of this function alone.
    const text = '(function (require, module, exports, console) {' + source.replace(/^export (default )?/gm, '') + '\n;return n => eval(n)})'
    let f
    try {
      f = new vm.Script(text, { filename: 'answer.js' }).runInThisContext()
    } catch (e) {
      first ??= e
      continue
    }
    try {
      const module = { exports: {} }
      const look = f(require, module, module.exports, quiet)
      names = n => {
        if (!/^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u.test(n)) throw new ReferenceError(n)
        return module.exports && Object.hasOwn(Object(module.exports), n) ? module.exports[n] : look(n)
      }
    } catch (e) {
      return failure(e)
    }
    return { v: null }
  }
  return { broken: String(first).slice(0, 300) }
}

const mutable = x => x !== null && typeof x === 'object'

function act(q) {
  const target = decode(q.on, special)
  const args = (q.a || []).map(x => decode(x, special))
  switch (q.op) {
    case 'call': {
      const before = args.map(x => mutable(x) ? encode(x, ref) : null)
      const self = q.self ? decode(q.self, special) : undefined
      const out = { v: encode(Reflect.apply(target, self, args), ref) }
      const after = args.map(x => mutable(x) ? encode(x, ref) : null)
      if (stringify(before) !== stringify(after)) out.args = after
      return out
    }
    case 'new': return { v: encode(Reflect.construct(target, args), ref) }
    case 'get': return { v: encode(target[q.name], ref) }
    case 'set': target[q.name] = args[0]; return { v: null }
    case 'list': return { v: encode([...target], ref) }
    case 'string': return { v: String(target) }
  }
  throw new TooMuch('an unknown question')
}

process.on('uncaughtException', () => process.exit(1))
raw.send(1, load())
for (;;) {
  let q
  try {
    q = raw.receive(0)
  } catch {
    process.exit(0)
  }
  let out
  try {
    out = act(q)
  } catch (e) {
    out = failure(e)
  }
  try {
    raw.send(1, out)
  } catch (e) {
    raw.send(1, failure(e))
  }
}
