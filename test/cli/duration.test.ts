import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { formatDuration, parseDuration } from '../../src/cli/duration.js'
import { CliError } from '../../src/cli/exit.js'
import { leakCheck } from '../support/leaks.js'

const good: readonly [text: string, ms: number][] = [
  ['500ms', 500],
  ['30s', 30_000],
  ['1.5s', 1500],
  ['5m', 300_000],
  ['1h', 3_600_000],
  ['2d', 172_800_000],
  ['0s', 0],
]
for (const [text, ms] of good) {
  test(`${text} is ${ms} ms`, () => assert.equal(parseDuration('--wait', text), ms))
}

const bad: readonly [text: string, complaint: RegExp][] = [
  ['30', /^--wait needs a unit, got '30'; did you mean 30s or 30ms\?$/],
  ['', /^--wait must be a duration such as .*, got ''$/],
  ['-5s', /got '-5s'/],
  ['NaN', /got 'NaN'/],
  ['5 s', /got '5 s'/],
  ['1h30m', /got '1h30m'/],
  ['5S', /got '5S'/],
  ['1e3ms', /got '1e3ms'/],
  ['9999d', /^--wait is at most 366d, got '9999d'$/],
  ['forever', /got 'forever'/],
]
for (const [text, complaint] of bad) {
  test(`a duration '${text}' is refused with the option, the value and the remedy`, () => {
    assert.throws(
      () => parseDuration('--wait', text),
      (error) => error instanceof CliError && error.exitCode === 64 && complaint.test(error.message),
    )
  })
}

test('forever is taken only where it makes sense', () => {
  assert.equal(parseDuration('--wait', 'forever', { forever: true }), Number.POSITIVE_INFINITY)
  assert.throws(() => parseDuration('--wait', 'never', { forever: true }), /or forever, got 'never'/)
})

test('a duration below the least one is refused', () => {
  assert.throws(
    () => parseDuration('--ttl', '10ms', { least: 1000 }),
    /--ttl must be at least 1s, got '10ms'/,
  )
})

const shown: readonly [ms: number, text: string][] = [
  [0, '0ms'],
  [950.4, '950ms'],
  [12_000, '12s'],
  [60_000, '1m'],
  [192_000, '3m 12s'],
  [7_500_000, '2h 5m'],
  [273_600_000, '3d 4h'],
  [-1500, '-1s'],
  [Number.POSITIVE_INFINITY, 'forever'],
]
for (const [ms, text] of shown) {
  test(`${ms} ms is written '${text}'`, () => assert.equal(formatDuration(ms), text))
}

after(leakCheck)
