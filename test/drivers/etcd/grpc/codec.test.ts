// The encoding of messages: against another implementation of protobuf in both directions, and what becomes of garbled bytes.
import '../../../support/background.js'
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import fc from 'fast-check'
import protobuf from 'protobufjs'
import { Message } from '../../../../src/drivers/etcd/grpc/codec.js'
import { calls, watchCall } from '../../../../src/drivers/etcd/grpc/messages.js'
import { GarbledError } from '../../../../src/drivers/etcd/grpc/wire.js'
import { leakCheck } from '../../../support/leaks.js'

/** Every type of field that etcd's messages have. Field 64, as in etcd's `Compare`, has a tag of two bytes. */
const proto = `
syntax = "proto3";
enum Side { LEFT = 0; RIGHT = 1; BOTH = 2; }
message Inner { bytes key = 1; int64 revision = 2; repeated bytes keys = 64; }
message Outer {
  bytes key = 1; string text = 2; int64 signed = 3; uint64 unsigned = 4; bool flag = 5; Side side = 6;
  Inner inner = 7; repeated Inner inners = 8;
}`
const theirs = protobuf.parse(proto, { keepCase: true }).root.lookupType('Outer')
const plain = { type: 'bytes', repeated: false } as const
const inner = new Message('Inner', () => ({
  key: { ...plain, number: 1 },
  revision: { number: 2, type: 'int64', repeated: false },
  keys: { number: 64, type: 'bytes', repeated: true },
}))
const ours = new Message('Outer', () => ({
  key: { ...plain, number: 1 },
  text: { number: 2, type: 'string', repeated: false },
  signed: { number: 3, type: 'int64', repeated: false },
  unsigned: { number: 4, type: 'uint64', repeated: false },
  flag: { number: 5, type: 'bool', repeated: false },
  side: { number: 6, type: ['LEFT', 'RIGHT', 'BOTH'], repeated: false },
  inner: { number: 7, type: inner, repeated: false },
  inners: { number: 8, type: inner, repeated: true },
}))

const bytes = fc.uint8Array({ maxLength: 300 }).map((array) => Buffer.from(array).toString('base64'))
const int64 = fc.oneof(
  fc.bigInt({ min: -(1n << 63n), max: (1n << 63n) - 1n }),
  ...[0n, 1n, 127n, 128n, (1n << 31n) - 1n, 1n << 31n, 1n << 49n, (1n << 53n) + 1n].map(fc.constant),
)
const uint64 = fc.bigInt({ min: 0n, max: (1n << 64n) - 1n })
const text = fc.string({ unit: 'grapheme' })
const innerOf = fc.record(
  { key: bytes, revision: int64.map(String), keys: fc.array(bytes, { minLength: 1 }) },
  { noNullPrototype: true },
)
const outerOf = fc.record(
  {
    key: bytes,
    text,
    signed: int64.map(String),
    unsigned: uint64.map(String),
    flag: fc.boolean(),
    side: fc.constantFrom('LEFT', 'RIGHT', 'BOTH'),
    inner: innerOf,
    inners: fc.array(innerOf, { minLength: 1 }),
  },
  { noNullPrototype: true },
)
const form = { longs: String, enums: String, bytes: String, defaults: true } as const

test('another implementation reads our encoding, and we read its encoding', () => {
  fc.assert(
    fc.property(outerOf, (value) => {
      const encoded = ours.encode(value)
      assert.deepEqual(theirs.toObject(theirs.decode(encoded), form), value)
      assert.deepEqual(ours.decode(encoded), value)
      assert.deepEqual(ours.decode(Buffer.from(theirs.encode(theirs.fromObject(value)).finish())), value)
    }),
    { numRuns: 500 },
  )
})

test('fields that a newer server adds are passed over', () => {
  const newer = protobuf
    .parse(
      `syntax = "proto3"; message Newer { bytes key = 1; int64 a = 100; string b = 101; fixed64 c = 102; fixed32 d = 103; }`,
    )
    .root.lookupType('Newer')
  const all = { key: Buffer.from('k'), a: -1, b: 'text', c: 1, d: 2 }
  const encoded = Buffer.from(newer.encode(newer.fromObject(all)).finish())
  assert.deepEqual(ours.decode(encoded), { key: Buffer.from('k').toString('base64') })
})

const replies = [...Object.values(calls), watchCall].map(({ reply }) => reply)

test('of garbled bytes something is read, or an error says what is wrong with them; nothing else happens', () => {
  let refused = 0
  const decode = (message: Message, garbled: Buffer) => {
    try {
      message.decode(garbled)
    } catch (error) {
      assert.ok(error instanceof GarbledError && error.message !== '', `${error}`)
      refused++
    }
  }
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (noise) => {
      for (const reply of replies) decode(reply, Buffer.from(noise))
    }),
    { numRuns: 500 },
  )
  assert.ok(refused > 0)
  refused = 0
  fc.assert(
    fc.property(outerOf, fc.nat(), fc.nat(255), (value, at, byte) => {
      const whole = ours.encode(value)
      const flipped = Buffer.from(whole)
      flipped[at % flipped.length] = byte
      decode(ours, flipped)
      decode(ours, whole.subarray(0, at % whole.length))
    }),
    { numRuns: 500 },
  )
  assert.ok(refused > 0)
})

const wrong: readonly (readonly [bytes: readonly number[], complaint: RegExp])[] = [
  [[0x0a, 5, 1], /a field of 5 bytes has only 1/],
  [[0x0a], /the last field is cut off/],
  [[0x08, 1], /Outer\.key is of another type/],
  [[0x18, ...Array(10).fill(0xff), 1], /more than 64 bits/],
  [[0x18, ...Array(9).fill(0xff), 2], /more than 64 bits/],
  [[0x0a, ...Array(6).fill(0xff), 1], /too large here/],
  [[0x4b], /no wire type 3/],
]
for (const [given, complaint] of wrong) {
  test(`the bytes ${given} are refused`, () => {
    assert.throws(() => ours.decode(Buffer.from(given)), complaint)
  })
}

const bad: readonly (readonly [value: object, complaint: RegExp])[] = [
  [{ nothing: 1 }, /Outer has no field "nothing" over gRPC/],
  [{ key: 7 }, /key must be a string in base64, got 7/],
  [{ key: '%%%%' }, /key must be in base64, got "%%%%"/],
  [{ signed: 'many' }, /signed must be a whole number, got "many"/],
  [{ signed: 1.5 }, /signed must be a whole number, got 1.5/],
  [{ side: 'UP' }, /side must be one of LEFT, RIGHT, BOTH, got "UP"/],
]
for (const [value, complaint] of bad) {
  test(`${JSON.stringify(value)} is not sent`, () => {
    assert.throws(() => ours.encode(value), complaint)
  })
}

after(leakCheck)
