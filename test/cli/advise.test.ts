// `holdfast advise` as people and scripts use it: flags, JSON, questions on a terminal, and neither.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { leakCheck } from '../support/leaks.js'
import { type Bench, bench } from './support/cli.js'
import { terminal } from './support/terminal.js'

let b: Bench
before(() => {
  b = bench()
})
after(() => b.close())

const all = [
  '--machines',
  'many',
  '--run',
  'redis,postgres',
  '--double',
  'costly',
  '--section',
  '30s',
  '--waiters',
  '100',
]

test('flags answer the questions', async () => {
  const { code, stdout, stderr } = await b.cli('advise', ...all)
  assert.equal(code, 0, stderr)
  assert.match(stdout, /^Use the driver postgres\.\n/)
  for (const title of ['Why', 'Options', 'Guard: advised', 'Weak points', 'Read'])
    assert.ok(stdout.includes(`\n${title}\n`), title)
  assert.match(stdout, /docs\/drivers\/postgres\.md/)
  assert.match(stdout, /holdfast doctor --on postgres:/)
  assert.match(stdout, /createLocks\(postgres\(\{ pool \}\)\)/)
})

test('the same as data', async () => {
  const { code, stdout } = await b.cli('advise', ...all, '--json')
  assert.equal(code, 0)
  const advice = JSON.parse(stdout)
  assert.equal(advice.driver, 'postgres')
  assert.deepEqual(advice.answers.run, ['redis', 'postgres'])
  assert.deepEqual(
    advice.lock.map(({ name, value }: { name: string; value: unknown }) => [name, value]),
    [
      ['maxHold', '90s'],
      ['wait', '75m'],
      ['fair', true],
    ],
  )
})

test('without a terminal and without flags it names the flags that are missing', async () => {
  const none = await b.cli('advise')
  assert.equal(none.code, 64)
  assert.match(
    none.stderr,
    /needs --machines <one\|many>, --run <stores>, --double <harmless\|costly\|never>, --section <duration>, --waiters <n>$/m,
  )
  const some = await b.cli('advise', '--machines', 'one', '--run', 'none', '--section', '1s')
  assert.equal(some.code, 64)
  assert.match(some.stderr, /needs --double <harmless\|costly\|never>, --waiters <n>$/m)
})

test('a flag that makes no sense is reported before anything is missed', async () => {
  const { code, stderr } = await b.cli('advise', '--machines', 'a few')
  assert.equal(code, 64)
  assert.match(stderr, /--machines must be one or many, got 'a few'/)
})

test('on a terminal it asks what no flag has answered, again where an answer makes no sense, and ends with its input', async () => {
  const term = await terminal(b.folder, { ...process.env }, b.main)
  try {
    term.type('holdfast advise --run none --section 1s\n')
    await term.see('run on one machine?')
    term.type('perhaps\n')
    await term.see("--machines must be one or many, got 'perhaps'")
    await term.see('run on one machine?')
    term.type('one\n')
    await term.see('at once for a moment?')
    term.type('harmless\n')
    await term.see('How many wait')
    term.type('3\n')
    await term.see('Use the driver local.')
    await term.see('ready> ')
    term.type('holdfast advise; echo "code $?"\n')
    await term.see('run on one machine?')
    term.type('\x04')
    await term.see('the questions were not answered to the end')
    await term.see('code 64')
  } finally {
    await term.close()
  }
})

after(leakCheck)
