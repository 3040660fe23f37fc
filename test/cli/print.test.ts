import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { stripVTControlCharacters } from 'node:util'
import { brief, holderCells, holderHeadings, json, plain, table } from '../../src/cli/print.js'
import { leakCheck } from '../support/leaks.js'

test('control and direction characters are written out, so that a note cannot take over a terminal', () => {
  assert.equal(plain('a\x1b[2Jb\r\n'), 'a\\u{1b}[2Jb\\u{d}\\u{a}')
  assert.equal(plain('\u202eevil'), '\\u{202e}evil')
  assert.equal(plain('naïve – 日本 😀'), 'naïve – 日本 😀')
})

test('JSON has null where there is no limit', () => {
  assert.equal(json({ expiresIn: Number.POSITIVE_INFINITY }), '{"expiresIn":null}')
})

test('a long note is truncated, with its length', () => {
  assert.equal(brief('x'.repeat(200)), 'x'.repeat(200))
  assert.equal(brief(`${'x'.repeat(200)}\x1b[2J`), `${'x'.repeat(200)}… (204 characters)`)
  assert.equal(brief('\x9b2J'), '\\u{9b}2J')
})

test('JSON is data, and nothing in it moves a cursor or turns the line round', () => {
  const note = '\x9b2J\u202eevil\u2028\u{e0001}"\\'
  const text = json({ note })
  assert.doesNotMatch(text, /[\p{Cc}\p{Cf}\u2028\u2029]/u)
  assert.deepEqual(JSON.parse(text), { note })
})

test('a table is aligned, has no frame, and leaves out empty columns', async () => {
  const text = stripVTControlCharacters(
    await table(
      ['NAME', 'NOTE', 'TOKEN'],
      [
        ['a', '', '1'],
        ['longer', '', '22'],
      ],
    ),
  )
  assert.equal(text, 'NAME    TOKEN\na       1\nlonger  22')
})

test('a holder is described in words', () => {
  const cells = holderCells({
    attempt: 'x',
    mode: { kind: 'permits', take: 2, of: 5 },
    token: 7,
    heldFor: 192_000,
    expiresIn: Number.POSITIVE_INFINITY,
    client: 'web-1:4711',
    note: 'nightly',
  })
  assert.deepEqual(cells, ['2 of 5', 'web-1:4711', '3m 12s', 'when it ends', '7', 'nightly'])
  assert.equal(cells.length, holderHeadings.length)
})

after(leakCheck)
