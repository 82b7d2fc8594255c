'use strict'
// Values as plain data, and frames on a pipe; see values.py.
const fs = require('node:fs')
const LIMIT = 16 << 20, DEEP = 100

class TooMuch extends Error {}

function encode(v, ref, deep = 0) {
  if (deep > DEEP) throw new TooMuch('a value is too deep')
  if (v === null || typeof v === 'boolean' || typeof v === 'string') return v
  if (v === undefined) return { t: 'undefined' }
  if (typeof v === 'number') {
    return Number.isFinite(v) && !Object.is(v, -0) ? v : { t: 'number', v: Object.is(v, -0) ? '-0' : String(v) }
  }
  if (typeof v === 'bigint') return { t: 'bigint', v: v.toString() }
  if (typeof v === 'object') {
    const e = x => encode(x, ref, deep + 1)
    if (Array.isArray(v)) return Array.prototype.map.call(Array.from(v), x => e(x))
    if (v instanceof Map) return { t: 'map', v: [...Map.prototype.entries.call(v)].map(([k, x]) => [e(k), e(x)]) }
    if (v instanceof Set) return { t: 'set', v: [...Set.prototype.values.call(v)].map(e) }
    if (v instanceof Date) return { t: 'date', v: Date.prototype.getTime.call(v) }
    const proto = Object.getPrototypeOf(v)
    if (proto === null || Object.getPrototypeOf(proto) === null) {
      return { t: 'object', v: Object.keys(v).map(k => [k, e(v[k])]) }
    }
  }
  return ref(v)
}

function decode(d, special, deep = 0) {
  if (deep > 2 * DEEP) throw new TooMuch('a value is too deep')
  if (d === null || ['boolean', 'string', 'number'].includes(typeof d)) return d
  const c = x => decode(x, special, deep + 1)
  if (Array.isArray(d)) return d.map(c)
  if (typeof d !== 'object') throw new TooMuch('a value of an unknown kind')
  switch (d.t) {
    case 'undefined': return undefined
    case 'number': return d.v === '-0' ? -0 : Number(String(d.v))
    case 'bigint': return BigInt(String(d.v))
    case 'map': return new Map(d.v.map(([k, x]) => [c(k), c(x)]))
    case 'set': return new Set(d.v.map(c))
    case 'date': return new Date(Number(d.v))
    case 'object': {
      const o = {}
      for (const [k, x] of d.v) Object.defineProperty(o, String(k), { value: c(x), writable: true, enumerable: true, configurable: true })
      return o
    }
  }
  return special(d)
}

function send(fd, d) {
  const data = Buffer.from(JSON.stringify(d))
  if (data.length > LIMIT) throw new TooMuch('a value is too large')
  const frame = Buffer.allocUnsafe(data.length + 4)
  frame.writeUInt32BE(data.length)
  data.copy(frame, 4)
  for (let at = 0; at < frame.length;) at += fs.writeSync(fd, frame, at)
}

class Closed extends Error {}

function exactly(fd, n) {
  const data = Buffer.alloc(n)
  for (let at = 0; at < n;) {
    const got = fs.readSync(fd, data, at, n - at)
    if (got === 0) throw new Closed()
    at += got
  }
  return data
}

function receive(fd) {
  const n = exactly(fd, 4).readUInt32BE()
  if (n > LIMIT) throw new TooMuch('a value is too large')
  return JSON.parse(exactly(fd, n).toString())
}
