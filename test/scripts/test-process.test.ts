// The runner of these tests: how it reports a file that passes, fails, exits silently, or hangs, each a real process.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { declared } from '../../scripts/test-files.js'
import { type FileResult, TestProcess, takeApart } from '../../scripts/test-process.js'
import { leakCheck } from '../support/leaks.js'
import { until } from '../support/until.js'

const folder = mkdtempSync(join(tmpdir(), 'holdfast-runner-'))
after(() => rmSync(folder, { recursive: true, force: true }))

function start(name: string, text: string, only?: string): TestProcess {
  const built = join(folder, `${name}.mjs`)
  writeFileSync(built, `import { test } from 'node:test'\n${text}`)
  return new TestProcess({ source: name, built, way: 'waits', tier: 'first' }, only, () => performance.now())
}

function counts({ totals }: FileResult): unknown[] {
  return [totals['tests'], totals['pass'], totals['fail']]
}

test('a file that passes: its tests are counted, and there are no failures', async () => {
  const result = await start('passes', "test('one', () => {}); test('two', () => {})").result
  assert.deepEqual(counts(result), [2, 2, 0])
  assert.equal(result.failures, '')
  assert.match(result.text, /✔ one/)
  assert.doesNotMatch(result.text, /ℹ tests/)
})

test('a file with a failed test: the failure is kept with its error', async () => {
  const result = await start('fails', "test('one', () => {}); test('two', () => { throw new Error('boom') })")
    .result
  assert.deepEqual(counts(result), [2, 1, 1])
  assert.match(result.failures, /✖ two[\s\S]*boom/)
})

test('of a file only the tests that match a pattern are run', async () => {
  const failing = "test('one', () => {}); test('two', () => { throw new Error('boom') })"
  const result = await start('some', failing, 'one').result
  assert.deepEqual([result.totals['pass'], result.failures], [1, ''])
})

test('a file that ends before its closing lines, or with a code although all passed, has failed', async () => {
  const silent = await start('silent', "test('one', () => process.reallyExit(0))").result
  assert.deepEqual(counts(silent), [1, 0, 1])
  assert.match(silent.failures, /✖ silent ended with 0, without closing lines/)
  const code = await start(
    'code',
    "test('one', () => { process.on('exit', () => { process.exitCode = 3 }) })",
  ).result
  assert.deepEqual(counts(code), [2, 1, 1])
  assert.match(code.failures, /✖ code ended with 3/)
})

test('a file that stops printing is terminated with the processes it started', async () => {
  const child =
    "spawn(process.execPath, ['-e', 'console.log(process.pid); setInterval(() => {}, 1e6)'], { stdio: ['ignore', 'inherit', 'ignore'] })"
  const one = start(
    'hangs',
    `import { spawn } from 'node:child_process'\ntest('one', () => new Promise(() => ${child}))`,
  )
  const began = one.lastHeard
  await until(() => one.lastHeard > began, { what: 'the grandchild to print its pid' })
  one.hangs('was ended: it printed nothing')
  const result = await one.result
  assert.match(result.failures, /✖ hangs was ended: it printed nothing, without closing lines/)
  const pid = Number(/\d+/.exec(result.text)?.[0])
  await until(() => !isAlive(pid), { what: 'the grandchild to be gone' })
})

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

test('test output that looks like closing lines is not counted', () => {
  const text = 'ℹ tests 7\n✔ one\nℹ tests 1\nℹ suites 0\nℹ pass 1\nℹ fail 0\nℹ duration_ms 3\n'
  const { body, failures, totals } = takeApart(text)
  assert.deepEqual([body, failures], ['ℹ tests 7\n✔ one\n', ''])
  assert.deepEqual(totals, { tests: 1, suites: 0, pass: 1, fail: 0 })
})

test('stderr output of a test is no failure when it arrives after the closing lines', () => {
  const text = '✔ one\nℹ tests 1\nℹ pass 1\nℹ fail 0\n(node:1) HoldfastWarning: a lease\nacquired:\n'
  const { body, failures, totals } = takeApart(text)
  assert.deepEqual([body, failures], ['✔ one\n(node:1) HoldfastWarning: a lease\nacquired:\n', ''])
  assert.deepEqual(totals, { tests: 1, pass: 1, fail: 0 })
  const failing = 'ℹ tests 1\nℹ fail 1\na warning\n\n✖ failing tests:\n\ntest at one.js\n✖ one\n'
  assert.equal(takeApart(failing).failures, 'test at one.js\n✖ one')
})

test('a file declares its tier and its way in its first lines, and only there', () => {
  assert.deepEqual(declared('// What it is.\n'), { tier: 'first', way: 'waits' })
  assert.deepEqual(declared('// What it is.\n// Second tier because it takes minutes.\n'), {
    tier: 'second',
    way: 'waits',
  })
  assert.deepEqual(declared('// Runs alone because it measures time.\n'), { tier: 'first', way: 'alone' })
  assert.deepEqual(declared("// X.\nimport '../support/background.js'\n"), { tier: 'first', way: 'computes' })
  assert.deepEqual(declared(`${'\n'.repeat(12)}// Second tier because.\n`), { tier: 'first', way: 'waits' })
})

after(leakCheck)
