// Runs the compiled test files; Node 20's own `node --test` takes no patterns.
//
//   npm test                          all of them
//   npm test -- redis core/lease      the files whose path contains one of the words
//   npm test -- core --only=abort     of those, the tests whose name matches the pattern
//
// Most files wait more than they work, so more of them run at a time than there are processors, the longest first. Beside
// them, and only with the time they leave, run the files that compute. Those that measure time follow, one by one.
// All is told as one, so that the closing lines count every test.
import { availableParallelism } from 'node:os'
import { Readable } from 'node:stream'
import { run } from 'node:test'
import { spec } from 'node:test/reporters'
import { type TestFile, testFiles, type Way } from './test-files.js'

/**
 * A file that takes longer hangs. One that computes gets only what the others leave it, and when that is little it says nothing about
 * the file: its limit is that of a whole run. In ms.
 */
const limits: Readonly<Record<Way, number>> = { waits: 600_000, computes: 2_400_000, alone: 600_000 }
const processors = Math.max(availableParallelism(), 2)
const atOnce: Readonly<Record<Way, number>> = {
  waits: Math.min(2 * processors + 1, 12),
  computes: Math.min(processors, 8),
  alone: 1,
}

interface Event {
  readonly type: string
  readonly data: {
    readonly nesting?: number
    readonly message?: string
    readonly name?: string
    readonly details?: { readonly duration_ms?: number }
  }
}

interface Choice {
  readonly words: readonly string[]
  readonly only?: string
}

const began = performance.now()
const choice = read(process.argv.slice(2))
const files = testFiles().filter(({ source }) => isWanted(source, choice.words))
if (files.length === 0) {
  console.error(`no test file has ${choice.words.map((word) => `'${word}'`).join(' or ')} in its path`)
  process.exit(1)
}
const counts = new Map<string, number>()
const took = new Map<string, number>()
Readable.from(told()).compose(new spec()).pipe(process.stdout)
process.on('exit', () => {
  const failed = (counts.get('fail') ?? 1) + (counts.get('cancelled') ?? 0)
  if (failed === 0 && counts.get('pass') === 0)
    console.error(`no test ran: none is named like '${choice.only}'`)
  if (failed > 0 || counts.get('pass') === 0) process.exitCode = 1
})

async function* told(): AsyncGenerator<Event> {
  // The reporter cannot tell two streams apart, so what computes is told when what waits has been.
  const computed = all(events('computes'))
  yield* events('waits')
  yield* await computed
  yield* events('alone')
  for (const [file, ms] of [...took].sort((a, b) => b[1] - a[1]).slice(0, 12))
    yield diagnostic(`${(ms / 1_000).toFixed(0).padStart(4)} s ${file}`)
  counts.set('duration_ms', performance.now() - began)
  for (const [what, count] of counts) yield diagnostic(`${what} ${count}`)
}

function diagnostic(message: string): Event {
  return { type: 'test:diagnostic', data: { nesting: 0, message } }
}

async function* events(way: Way): AsyncGenerator<Event> {
  const group = files.filter((file) => file.way === way)
  if (group.length === 0) return
  const stream = run({
    files: group.map(({ built }) => built),
    concurrency: atOnce[way],
    timeout: limits[way],
    ...(choice.only !== undefined && { testNamePatterns: choice.only }),
  })
  for await (const event of stream as AsyncIterable<Event>) {
    if (event.type === 'test:complete') noteTime(group, event)
    if (!counted(event)) yield event
  }
}

async function all<T>(from: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = []
  for await (const one of from) list.push(one)
  return list
}

/** A file is told as a test of its own, named by its path. */
function noteTime(group: readonly TestFile[], { data }: Event): void {
  const file = group.find(({ built }) => built === data.name)
  if (file !== undefined) took.set(file.source, data.details?.duration_ms ?? 0)
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
