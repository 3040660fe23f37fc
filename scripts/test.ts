// Runs the compiled test files, each in a process of its own; none is ever run again because it failed.
//
//   npm test                          the first tier: what a change needs, in some minutes
//   npm run test:all                  both tiers
//   npm test -- redis core/lease      the files of either tier whose path contains one of the words
//   npm test -- core --only=abort     of those, the tests whose name matches the pattern
//
// Options for CI: --tier=first|second|all, and --sum, which adds the totals of the run before this one to the closing lines.
//
// Most files wait more than they work, so more of them run at a time than there are processors, the longest first, and as many as the
// machine can carry. Beside them, at low priority, run the files that compute. Those that measure time follow, one by one.
import pc from 'picocolors'
import { Machine, processors } from './machine.js'
import { type Choice, chosen, type TestFile, testFiles, type Way } from './test-files.js'
import { type FileResult, TestProcess } from './test-process.js'
import { print, report, seconds, times } from './test-report.js'

/** How long a file may print nothing, in ms of the machine's progress: it hangs. */
const silence: Readonly<Record<Way, number>> = { waits: 600_000, computes: 2_400_000, alone: 600_000 }
const atOnce: Readonly<Record<Way, number>> = {
  waits: Math.min(6 * processors, 16),
  computes: Math.min(processors, 8),
  alone: 1,
}
/** So many ready tasks for each processor are enough; but some files run in any case, because they mostly wait. */
const fullLoad = 3
const atLeast = 2 * processors
/** More than this many only while a processor stands idle: then most of those that run are waiting. */
const usual = 4 * processors
const lightLoad = 1

interface Options extends Choice {
  readonly sum: boolean
  readonly only?: string
}

const choice = read(process.argv.slice(2))
const files = chosen(testFiles(), choice)
if (files.length === 0)
  stop(`no test file has ${choice.words.map((word) => `'${word}'`).join(' or ')} in its path`)

const began = performance.now()
const running = new Set<TestProcess>()
const results: FileResult[] = []
const machine = new Machine(sampled)
let room = () => {}
let stopping = false
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => void interrupted())

await Promise.all([runAll('waits'), runAll('computes')])
await runAll('alone')
machine.stop()
const passed = report(results, performance.now() - began, choice.sum)
const failed = results.some(({ failures }) => failures !== '')
if (passed === 0 && !failed && choice.only !== undefined)
  console.error(`no test ran: none is named like '${choice.only}'`)
if (passed === 0 || failed) process.exitCode = 1

async function runAll(way: Way): Promise<void> {
  const queue = files.filter((file) => file.way === way)
  const ends = new Set<Promise<void>>()
  for (const file of queue) {
    while (!mayStart(way, ends.size))
      await Promise.race([...ends, ...(way === 'waits' ? [nextSample()] : [])])
    if (stopping) return
    const end = runOne(file).finally(() => ends.delete(end))
    ends.add(end)
    // The machine shows what a file costs only after a moment.
    if (way === 'waits' && ends.size >= atLeast) await Promise.race([nextSample(), ...ends])
  }
  await Promise.all(ends)
}

function mayStart(way: Way, count: number): boolean {
  if (count >= atOnce[way]) return false
  if (way !== 'waits' || count < atLeast) return true
  return machine.load < (count < usual ? fullLoad : lightLoad)
}

function nextSample(): Promise<void> {
  const earlier = room
  return new Promise((resolve) => {
    room = () => {
      earlier()
      resolve()
    }
  })
}

async function runOne(file: TestFile): Promise<void> {
  const one = new TestProcess(file, choice.only, () => machine.progress)
  running.add(one)
  if (file.way === 'computes') machine.background++
  const result = await one.result
  if (file.way === 'computes') machine.background--
  running.delete(one)
  results.push(result)
  const failed = result.failures !== ''
  const line = `${failed ? '✖' : '✔'} ${file.source}  ${times(result)}`
  print(`${result.text}${failed ? pc.red(line) : pc.bold(line)}`)
}

async function interrupted(): Promise<void> {
  stopping = true
  const ends = [...running].map((one) => {
    one.kill()
    return one.result
  })
  await Promise.all(ends)
  process.exit(130)
}

function sampled(): void {
  const told = room
  room = () => {}
  told()
  for (const one of running) {
    one.measure()
    if (machine.progress - one.lastHeard > silence[one.file.way])
      one.hangs(
        `was ended: it printed nothing for ${seconds(silence[one.file.way])} of the machine's progress`,
      )
  }
  progress()
}

/** One line at the bottom of a terminal. */
function progress(): void {
  if (!process.stdout.isTTY) return
  const failed = results.filter(({ failures }) => failures !== '').length
  const names = [...running].map(({ file }) => file.source.replace(/^test\/|\.test\.ts$/g, ''))
  const state = `${results.length} of ${files.length} files${failed > 0 ? `, ${failed} failed` : ''}, ${seconds(performance.now() - began)}, load ${machine.load.toFixed(1)}`
  process.stdout.write(
    `\r\x1b[K${`[${state}] ${names.join(' ')}`.slice(0, (process.stdout.columns ?? 80) - 1)}`,
  )
}

function read(args: readonly string[]): Options {
  const option = (name: string) => args.find((arg) => arg.startsWith(`--${name}=`))?.slice(name.length + 3)
  const unknown = args.find((arg) => arg.startsWith('-') && !/^--(?:(?:only|tier)=|sum$)/.test(arg))
  if (unknown !== undefined)
    stop(`unknown option '${unknown}': give words of file paths, and --only=PATTERN for names of tests`)
  const [only, tier = 'first'] = [option('only'), option('tier')]
  if (tier !== 'first' && tier !== 'second' && tier !== 'all')
    stop(`--tier=${tier}: give 'first', 'second' or 'all'`)
  const words = args.filter((arg) => !arg.startsWith('-'))
  return { words, tier, sum: args.includes('--sum'), ...(only !== undefined && { only }) }
}

function stop(why: string): never {
  console.error(why)
  process.exit(1)
}
