// The tests' side; see tests.py. Descriptors 0 and 1 are the pipes, 2 takes the
// report; the console goes nowhere.
const vm = require('node:vm'), assert = require('node:assert')
const job = JSON.parse(fs.readFileSync(process.argv[2] || '/box/tests.json', 'utf8'))

class Ended extends Error {}
class Broken extends Error {}
const link = { calls: 0, dead: null, own: false, functions: [], stands: new WeakMap(), asked: new WeakSet() }

function end(why) {
  link.dead ??= why
  throw new Ended(link.dead)
}

function hear() {
  try {
    return receive(0)
  } catch (e) {
    if (e instanceof Closed || e?.code === 'EOF' || e?.code === 'EPIPE') end("the answer's process ended")
    if (e instanceof TooMuch) end(e.message)
    end('the answer sent what cannot be read')
  }
}

function given(v) {
  if (link.stands.has(v)) return link.stands.get(v)
  if (typeof v === 'function') {
    link.functions.push(v)
    return { t: 'fn', v: link.functions.length - 1 }
  }
  throw new Broken('the tests hand over a value of an unknown kind')
}

function tell(q) {
  if (link.dead) throw new Ended(link.dead)
  try {
    send(1, q)
  } catch (e) {
    if (e instanceof TooMuch) throw new Broken('the tests hand over what is too large')
    end("the answer's process ended")
  }
}

function ask(q) {
  tell(q)
  for (;;) {
    const got = hear()
    if (got === null || typeof got !== 'object') end('the answer sent what cannot be read')
    if ('back' in got) {
      let out
      try {
        // A name would be one of the list's own methods.
        if (!Number.isInteger(got.back)) throw new TooMuch('no function of the tests')
        const args = got.a.map(x => decode(x, special))
        out = { v: encode(link.functions[got.back](...args), given) }
      } catch (e) {
        if (e instanceof Ended) throw e
        out = { error: String(e?.message) }
      }
      tell(out)
      continue
    }
    if ('error' in got) {
      const names = Array.isArray(got.error) ? got.error : []
      const cls = { TypeError, RangeError, ReferenceError, SyntaxError, URIError, EvalError }[names[0]] ?? Error
      const e = new cls(String(got.text).slice(0, 1000))
      if (cls === Error && typeof names[0] === 'string') e.name = names[0].slice(0, 80)
      link.asked.add(e)
      throw e
    }
    let value, args
    try {
      value = decode(got.v, special)
      args = (got.args || []).map(x => x === null ? null : decode(x, special))
    } catch (e) {
      if (e instanceof Ended) throw e
      end('the answer sent what cannot be read')
    }
    link.calls++
    return { value, args }
  }
}

function special(d) {
  if (d && d.t === 'ref' && Number.isInteger(d.v)) return stand({ t: 'ref', v: d.v })
  throw new TooMuch('a value of an unknown kind')
}

// stand stands for something in the answer's process. Compared, it is equal to
// itself alone; turned into a plain value by the answer's code, it proves
// nothing any more.
function stand(on, self) {
  const target = function () {}
  const p = new Proxy(target, {
    apply(_, __, args) {
      const q = { op: 'call', on, a: args.map(x => encode(x, given)) }
      if (self) q.self = self
      const { value, args: after } = ask(q)
      args.forEach((old, i) => update(old, after?.[i]))
      return value
    },
    construct(_, args) {
      const { value } = ask({ op: 'new', on, a: args.map(x => encode(x, given)) })
      return value !== null && typeof value === 'object' || typeof value === 'function' ? value : Object(value)
    },
    get(_, name) {
      if (name === Symbol.iterator) return function* () { yield* ask({ op: 'list', on }).value }
      if (name === Symbol.toPrimitive) { link.own = true; return () => String(ask({ op: 'string', on }).value) }
      if (typeof name === 'symbol' || name === 'prototype') return undefined
      const { value } = ask({ op: 'get', on, name })
      return link.stands.has(value) ? stand(link.stands.get(value), on) : value
    },
    set(_, name, v) {
      ask({ op: 'set', on, name: String(name), a: [encode(v, given)] })
      return true
    },
    // What it is made of is the answer's to say.
    ownKeys() { link.own = true; return Reflect.ownKeys(target) },
    getPrototypeOf() { link.own = true; return Reflect.getPrototypeOf(target) },
  })
  link.stands.set(p, on)
  return p
}

function update(old, after) {
  if (Array.isArray(old) && Array.isArray(after)) {
    old.splice(0, old.length, ...after)
  } else if (old instanceof Map && after instanceof Map || old instanceof Set && after instanceof Set) {
    old.clear()
    for (const x of after) old instanceof Map ? old.set(...x) : old.add(x)
  } else if (old && after && typeof old === 'object' && Object.getPrototypeOf(old) === Object.prototype) {
    for (const k of Object.keys(old)) delete old[k]
    Object.assign(old, after)
  }
}

// Names that tests have from what runs them; as the answer's they would prove
// what it likes.
const FRAMEWORK = new Set(['test', 'it', 'describe', 'suite', 'specify', 'context', 'expect', 'should', 'chai', 'jest', 'vi', 'sinon',
  'before', 'after', 'beforeEach', 'afterEach', 'beforeAll', 'afterAll', '_', 'lodash'])

function entryOf() {
  if (job.entry) return job.entry
  const found = [...job.prompt.matchAll(/^(?:export )?(?:async )?(?:function\*?|const|let|var)\s+([\w$]+)/gm)]
  return found.length ? found[found.length - 1][1] : ''
}

function run() {
  const wrap = f => function (v, ...rest) {
    if (!v) throw new assert.AssertionError({ message: rest.length ? String(rest[0]) : 'assertion failed' })
  }
  const quiet = new Proxy({ assert: wrap() }, { get: (t, n) => t[n] ?? (() => {}) })
  const entry = entryOf()
  let f
  const scope = { require, console: quiet, process: undefined, assert }
  if (entry === 'assert') delete scope.assert
  const known = new Set([...Object.keys(scope)])
  // A name that neither the tests nor JavaScript knows is the answer's.
  const world = new Proxy(scope, {
    has: (_, n) => typeof n === 'string' && (known.has(n) || n === entry || n === 'candidate' && entry !== '' || !(n in globalThis) && n !== 'undefined'),
    get: (t, n) => {
      if (typeof n === 'symbol') return undefined
      if (known.has(n)) return t[n]
      if (FRAMEWORK.has(n) && n !== entry) throw new Broken('the tests use ' + n + ' of a test framework, which is not here')
      return stand({ t: 'name', v: n === 'candidate' ? entry : n })
    },
    set: (t, n, v) => { known.add(n); t[n] = v; return true },
  })
  try {
    f = new vm.Script('(function (world) { with (world) { return (function () {' + job.tests + '\n;return {check: typeof check === "function" && !(isStand(check)) ? check : null}}).call(undefined)}})', { filename: 'tests.js' }).runInThisContext()
  } catch (e) {
    throw new Broken('the tests do not compile: ' + e.message)
  }
  known.add('isStand')
  scope.isStand = v => link.stands.has(v)
  const first = hear()
  if (first === null || typeof first !== 'object' || 'broken' in first) return ['fail', 'the answer does not compile: ' + String(first?.broken).slice(0, 200)]
  if ('error' in first) return ['fail', ('the answer raised ' + String(first.error) + ' while it was loaded: ' + String(first.text)).slice(0, 300)]
  // What runs later would not be waited for, so that it cannot be passed.
  let later = false
  const hook = require('node:async_hooks').createHook({ init() { later = true } }).enable()
  const { check } = f(world)
  if (check) check(stand({ t: 'name', v: entry }))
  hook.disable()
  if (later) throw new Broken('the tests go on after their end, by promises or timers: nothing waits for them')
  if (link.calls === 0) throw new Broken('the tests asked the answer nothing')
  return ['pass', 'all tests passed']
}

let outcome, reason
process.on('exit', () => {
  if (outcome === undefined) [outcome, reason] = ['broken', 'the tests ended themselves']
  if (link.dead && outcome !== 'broken') [outcome, reason] = ['fail', link.dead]
  if (outcome === 'pass' && link.own) [outcome, reason] = ['own', "the tests compare objects of the answer's own types, and only the answer itself says that they are right"]
  fs.writeSync(2, '\n' + job.nonce + JSON.stringify({ outcome, reason }) + '\n')
})
try {
  ;[outcome, reason] = run()
} catch (e) {
  if (e instanceof Broken) [outcome, reason] = ['broken', e.message]
  else if (e instanceof Ended) [outcome, reason] = ['fail', e.message]
  else if (e instanceof assert.AssertionError) [outcome, reason] = ['fail', 'wrong: ' + String(e.message).split('\n').join(' ').slice(0, 200)]
  else [outcome, reason] = [link.calls || link.asked.has(e) ? 'fail' : 'broken', (String(e?.name) + ': ' + String(e?.message)).slice(0, 250)]
}
process.exit(0)
