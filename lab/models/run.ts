// Walks through the models of lab/models and compares what comes out with the table.
//
//   npm run models                      all that take up to a minute
//   npm run models -- --quick           the part that belongs to `npm run test:all`
//   npm run models -- --soak            the big ones too, which take an hour
//   npm run models -- broker PID_ONLY   the runs whose model or defines have one of the words; any effort
//
//   --jobs N      walks at the same time (2)
//   --memory MB   for all of them together (8192)
//   --list        only say what would be run
//   --page        print the tables of docs/models.md
//
// Ends with 1 if any verdict differs from the expected one. A wrong design shows the shortest way to what it breaks.
import { parseArgs } from 'node:util'
import { tables } from './page.js'
import { findTools } from './spin.js'
import { type Effort, type Row, table } from './table.js'
import { checkRow, type Outcome, runInOrder, toOutcome } from './verdict.js'

const efforts: readonly Effort[] = ['quick', 'full', 'soak']

const { values, positionals: words } = parseArgs({
  allowPositionals: true,
  options: {
    quick: { type: 'boolean', default: false },
    soak: { type: 'boolean', default: false },
    list: { type: 'boolean', default: false },
    page: { type: 'boolean', default: false },
    jobs: { type: 'string', default: '2' },
    memory: { type: 'string', default: '8192' },
  },
})

function wanted(row: Row): boolean {
  const most = values.quick ? 0 : values.soak || words.length > 0 ? 2 : 1
  const asked = words.length === 0 || words.some((word) => row.model === word || row.defines.includes(word))
  return asked && efforts.indexOf(row.effort) <= most
}

function count(name: 'jobs' | 'memory', least: number): number {
  const given = Number(values[name])
  if (!Number.isInteger(given) || given < least) {
    throw new RangeError(`--${name} ${values[name]}: a whole number of at least ${least} is needed`)
  }
  return given
}

function line({ row, answer, failure }: Outcome): string {
  const { model, defines, asks, expected } = row
  const mark = failure === undefined ? 'ok ' : 'BAD'
  const what = expected === 'holds' ? `${asks} holds` : `breaks ${expected}`
  const effort = answer
    ? `${answer.states.toLocaleString('en').padStart(11)} states ${answer.seconds.toFixed(1).padStart(6)} s`
    : ''
  const head = `${mark} ${model.padEnd(8)} ${defines.join(' ').padEnd(66)} ${what.padEnd(26)} ${effort}`
  const story = expected === 'holds' ? [] : (answer?.story ?? [])
  return [
    head.trimEnd(),
    ...story.map((event) => `      ${event}`),
    ...(failure ? [`    ! ${failure}`] : []),
  ].join('\n')
}

async function main(): Promise<void> {
  if (values.page) {
    const { holding, mistakes } = tables()
    console.log(`${holding}\n\n${mistakes}`)
    return
  }
  const rows = table.filter(wanted)
  if (rows.length === 0) throw new RangeError(`no run has ${words.map((word) => `'${word}'`).join(' or ')}`)
  if (values.list) {
    for (const row of rows) console.log(line({ row, answer: undefined, failure: undefined }))
    return
  }
  const jobs = count('jobs', 1)
  const memory = Math.floor(count('memory', 256) / jobs)
  const tools = await findTools()
  const stop = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort())
  const began = performance.now()
  let bad = 0
  let states = 0
  await runInOrder(
    rows,
    jobs,
    (row) => toOutcome(row, () => checkRow(row, { memory, time: 3_600_000, signal: stop.signal }, tools)),
    (outcome) => {
      console.log(line(outcome))
      if (outcome.failure !== undefined) bad++
      states += outcome.answer?.states ?? 0
    },
    stop.signal,
  )
  const seconds = ((performance.now() - began) / 1000).toFixed(0)
  console.log(
    `\n${rows.length} runs, ${states.toLocaleString('en')} states, ${seconds} s: ${bad === 0 ? 'all as expected' : `${bad} not as expected`}`,
  )
  if (bad > 0) process.exitCode = 1
}

main().catch((error: unknown) => {
  console.error(`models: ${error instanceof Error ? error.message : error}`)
  process.exitCode = 1
})
