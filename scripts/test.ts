// Runs the compiled test files; Node 20's own `node --test` takes no patterns.
//
//   npm test                          all of them
//   npm test -- redis core/lease      the files whose path contains one of the words
//   npm test -- core --only=abort     of those, the tests whose name matches the pattern
//
// A few files run at a time. A file that measures time says `// Runs alone because ...` in its first lines; those run
// one by one, after all others. Both runs are told as one, so that the closing lines count every test.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join, relative } from 'node:path'
import { Readable } from 'node:stream'
import { run } from 'node:test'
import { spec } from 'node:test/reporters'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../..', import.meta.url))
/** A file that takes longer hangs. The slowest ones take about two minutes on a machine that is not busy. */
const fileTimeout = 600_000

interface Event {
  readonly type: string
  readonly data: { readonly nesting?: number; readonly message?: string }
}

interface Choice {
  readonly words: readonly string[]
  readonly only?: string
}

const choice = read(process.argv.slice(2))
const files = testFiles().filter(({ source }) => isWanted(source, choice.words))
if (files.length === 0) {
  console.error(`no test file has ${choice.words.map((word) => `'${word}'`).join(' or ')} in its path`)
  process.exit(1)
}
// One more than there are processors: most files wait more than they work.
const atOnce = Math.min(Math.max(availableParallelism(), 2) + 1, 8)
const groups = [
  { concurrency: atOnce, files: files.filter(({ alone }) => !alone) },
  { concurrency: 1, files: files.filter(({ alone }) => alone) },
]
const counts = new Map<string, number>()
// One after the other: the reporter draws from this generator, which starts the second group after the first.
Readable.from(told()).compose(new spec()).pipe(process.stdout)
process.on('exit', () => {
  const failed = (counts.get('fail') ?? 1) + (counts.get('cancelled') ?? 0)
  if (failed === 0 && counts.get('pass') === 0)
    console.error(`no test ran: none is named like '${choice.only}'`)
  if (failed > 0 || counts.get('pass') === 0) process.exitCode = 1
})

async function* told(): AsyncGenerator<Event> {
  for (const group of groups) {
    if (group.files.length === 0) continue
    const events = run({
      files: group.files.map(({ built }) => built),
      concurrency: group.concurrency,
      timeout: fileTimeout,
      ...(choice.only !== undefined && { testNamePatterns: choice.only }),
    })
    for await (const event of events as AsyncIterable<Event>) {
      if (!counted(event)) yield event
    }
  }
  for (const [what, count] of counts) {
    yield { type: 'test:diagnostic', data: { nesting: 0, message: `${what} ${count}` } }
  }
}

/** Takes the closing lines of a group out of the stream and adds them up. */
function counted({ type, data }: Event): boolean {
  if (type !== 'test:diagnostic' || data.nesting !== 0) return false
  const line = /^(tests|suites|pass|fail|cancelled|skipped|todo|duration_ms) ([\d.]+)$/.exec(
    data.message ?? '',
  )
  if (line === null) return false
  const [, what = '', number] = line
  counts.set(what, (counts.get(what) ?? 0) + Number(number))
  return true
}

function testFiles(): { source: string; built: string; alone: boolean }[] {
  const names = readdirSync(join(root, 'test'), { recursive: true, encoding: 'utf8' })
  return names
    .filter((name) => name.endsWith('.test.ts'))
    .sort()
    .map((name) => {
      const source = join('test', name)
      const built = join(root, 'build/test', name.replace(/\.ts$/, '.js'))
      if (!existsSync(built))
        throw new Error(`${relative(root, built)} is missing: run 'npm run build' first`)
      return { source, built, alone: runsAlone(source) }
    })
}

function runsAlone(source: string): boolean {
  const head = readFileSync(join(root, source), 'utf8').split('\n', 12)
  return head.some((line) => line.startsWith('// Runs alone because '))
}

function isWanted(source: string, words: readonly string[]): boolean {
  return words.length === 0 || words.some((word) => source.includes(word))
}

function read(args: readonly string[]): Choice {
  const only = args.find((arg) => arg.startsWith('--only='))?.slice('--only='.length)
  const unknown = args.find((arg) => arg.startsWith('-') && !arg.startsWith('--only='))
  if (unknown !== undefined) {
    console.error(
      `unknown option '${unknown}': give words of file paths, and --only=PATTERN for names of tests`,
    )
    process.exit(1)
  }
  return { words: args.filter((arg) => !arg.startsWith('-')), ...(only !== undefined && { only }) }
}
