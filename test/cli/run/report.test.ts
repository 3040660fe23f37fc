import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { ordinal, waitingText } from '../../../src/cli/run/report.js'
import { cut, statusLine } from '../../../src/cli/tty.js'
import { leakCheck } from '../../support/leaks.js'

const holder = {
  attempt: 'x',
  mode: { kind: 'exclusive' },
  token: 7,
  heldFor: 190_000,
  expiresIn: 1000,
  client: 'web-1:4711',
  note: 'nightly import',
} as const

test('a waiter is told its position, who holds it, since when, with what note', () => {
  const text = waitingText('deploy', { holder, position: 2, waiters: 3, at: 8000 }, 14_000, 0)
  assert.equal(
    text,
    'waiting 14s for "deploy", 2nd of 3 in the queue; held for 3m 16s by web-1:4711 ("nightly import")',
  )
})

test('fields that the store does not report are left out', () => {
  assert.equal(waitingText('deploy', { at: 0 }, 1500, 0), 'waiting 1s for "deploy"')
  const text = waitingText('deploy', { at: 0, position: 1, holder: { ...holder, note: '\x1b[31mred' } }, 0, 0)
  assert.match(text, /1st in the queue; held for 3m 10s by web-1:4711 \("\\u\{1b\}\[31mred"\)$/)
})

test('an unreachable store is reported with its reason', () => {
  const text = waitingText('deploy', { at: 0, error: 'etcd: connect ECONNREFUSED' }, 1500, 0)
  assert.equal(text, 'waiting 1s for "deploy"; the store cannot be asked: etcd: connect ECONNREFUSED')
})

test('places are ordinals', () => {
  assert.deepEqual([1, 2, 3, 4, 11, 12, 13, 21, 102, 111].map(ordinal), [
    '1st',
    '2nd',
    '3rd',
    '4th',
    '11th',
    '12th',
    '13th',
    '21st',
    '102nd',
    '111th',
  ])
})

test('the line on a terminal is replaced, cut to its width, and taken back', () => {
  const written: string[] = []
  const stream = { columns: 10, write: (text: string) => written.push(text) } as unknown as NodeJS.WriteStream
  const line = statusLine(stream)
  line.clear()
  line.show('0123456789')
  line.clear()
  line.clear()
  assert.deepEqual(written, ['\r\x1b[K01234567…', '\r\x1b[K'])
  assert.equal(cut('😀😀😀', 2), '😀…')
})

after(leakCheck)
