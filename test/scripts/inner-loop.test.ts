// From an edit of one file to the result of its test, in a copy of the checkout: how much work it is, and what the runner prints.
// Second tier because it tests the runner, which seldom changes.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { stripVTControlCharacters } from 'node:util'
import { root } from '../support/checkout.js'
import { leakCheck } from '../support/leaks.js'

const copy = mkdtempSync(join(tmpdir(), 'holdfast-inner-'))
/** What tsc goes by to write only what has changed since it last ran. */
const builtBefore = join(copy, 'build/tsconfig.tsbuildinfo')
after(() => rmSync(copy, { recursive: true, force: true }))

before(() => {
  const parts = ['package.json']
  for (const folder of ['scripts', 'src', 'test']) parts.push(folder, `build/${folder}`)
  // With their times: what is older than its source is transpiled again.
  for (const part of parts)
    cpSync(join(root, part), join(copy, part), { recursive: true, preserveTimestamps: true })
  for (const folder of ['bench', 'lab', 'examples']) mkdirSync(join(copy, folder))
  symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'))
  writeFileSync(builtBefore, '{}')
})

interface Run {
  readonly status: number | null
  readonly output: string
  /** In ms. */
  readonly processor: number
}

function npmTest(...args: string[]): Run {
  return run('npm', ['test', '--', ...args])
}

function run(command: string, args: readonly string[]): Run {
  const earlier = ofChildren()
  const { status, stdout, stderr } = spawnSync(command, args, { cwd: copy, encoding: 'utf8' })
  return {
    status,
    output: stripVTControlCharacters(`${stdout}${stderr}`).replaceAll('\r', '\n'),
    processor: ofChildren() - earlier,
  }
}

/** Processor time of all children that have ended, and of theirs. */
function ofChildren(): number {
  const stat = readFileSync('/proc/self/stat', 'latin1')
  const [user, system] = stat
    .slice(stat.lastIndexOf(')') + 2)
    .split(' ')
    .slice(13, 15)
  return 10 * (Number(user) + Number(system))
}

function edit(path: string, change: (text: string) => string): void {
  writeFileSync(join(copy, path), change(readFileSync(join(copy, path), 'utf8')))
}

test('from an edit of src/core/lease.ts to the result of its test it takes at most 2 s of processor', () => {
  const took: number[] = []
  for (let round = 0; round < 4; round++) {
    edit('src/core/lease.ts', (text) => `${text}\nconsole.log('edit number ${round}')\n`)
    const { status, output, processor } = npmTest('core/lease')
    assert.equal(status, 0, output)
    assert.match(output, new RegExp(`edit number ${round}`))
    // Else a build after the edit is taken back would keep what was made of it.
    assert.ok(!existsSync(builtBefore))
    took.push(processor)
  }
  // Other work on the machine can only make a round slower.
  assert.ok(Math.min(...took) <= 2_000, `${took} ms`)
})

test('a file that cannot be transpiled is named with its position, and no test runs', () => {
  const before = readFileSync(join(copy, 'src/core/lease.ts'), 'utf8')
  edit('src/core/lease.ts', () => '\nexport const = 1\n')
  const { status, output } = npmTest('core/lease')
  edit('src/core/lease.ts', () => before)
  assert.equal(status, 1)
  assert.match(output, /lease\.ts:2:13: ERROR/)
  assert.doesNotMatch(output, /ℹ tests/)
})

test('a failed test is not run again', () => {
  const path = 'test/core/duration.test.ts'
  const counter = join(copy, 'runs')
  writeFileSync(
    join(copy, path),
    `import { appendFileSync } from 'node:fs'
import { test } from 'node:test'
test('fails', () => {
  appendFileSync(${JSON.stringify(counter)}, 'x')
  throw new Error('boom')
})
`,
  )
  const { status, output } = npmTest('core/duration')
  rmSync(join(copy, path))
  assert.equal(status, 1)
  assert.match(output, /^ℹ fail 1$/m)
  assert.equal(readFileSync(counter, 'utf8'), 'x')
})

test('at the end the ten slowest files are named, and on a terminal what is running', () => {
  const small = ['clock', 'events', 'health', 'keyed-mutex', 'lazy-timers', 'lease']
  const more = ['lock-order', 'releases', 'small-set', 'time-limit', 'validity']
  const files = [...small, ...more].map((name) => `test/core/${name}.test.ts`)
  assert.ok(files.length > 10)
  const command = [process.execPath, 'scripts/build-and-test.mjs', ...files].join(' ')
  const { status, output } = run('script', ['-qefc', command, '/dev/null'])
  assert.equal(status, 0, output)
  const [, after = ''] = output.split(`the slowest of ${files.length} files`)
  assert.equal(after.match(/^ *[\d.]+ s \([\d.]+ s of processor\) +test\//gm)?.length, 10, output)
  assert.match(
    output,
    new RegExp(`\\[\\d+ of ${files.length} files, [\\d.]+ s, load [\\d.]+\\] .*core/clock`),
  )
})

after(leakCheck)
