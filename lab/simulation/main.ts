// Searches for a schedule that breaks a promise, under virtual time.
//
//   npm run simulate                          memory, both tables behind a wire, and Redis: some five minutes
//   npm run simulate -- redis --runs 100000   one of them, for longer
//   npm run simulate -- --broken              each deliberately broken store, and how many runs until it was caught
//   npm run simulate -- table --seed 17       other schedules; every seed always means the same ones
import { parseArgs } from 'node:util'
import type { Caching } from './caching.js'
import { type Found, search, tell } from './search.js'
import { memoryStore } from './stores/memory.js'
import { mintingMistakes, mistakes } from './stores/mistakes.js'
import { type Machine, startMachine } from './stores/redis/machine.js'
import { scriptMistakes } from './stores/redis/mistakes.js'
import { redisStore } from './stores/redis/store.js'
import type { StoreKind } from './stores/store.js'
import { mintingStore, tableStore } from './stores/table.js'

interface Job {
  readonly kind: StoreKind
  readonly runs: number
  /** One of these rules must be broken; undefined: none may be. */
  readonly breaks?: readonly string[]
}

const { values, positionals } = parseArgs({
  options: { runs: { type: 'string' }, seed: { type: 'string' }, broken: { type: 'boolean' } },
  allowPositionals: true,
})
const runs = whole('--runs', values.runs)
const seed = whole('--seed', values.seed) ?? 1
const machine = await startMachine()
const all = values.broken === true ? brokenStores(machine) : soundStores(machine)
const jobs = all.filter(
  ({ kind }) => positionals.length === 0 || positionals.includes(kind.name.split(' ')[0] ?? ''),
)
if (jobs.length === 0)
  stop(
    `no store is called '${positionals.join("' or '")}'; there are memory, table, minting, redis and redis-detected`,
  )

let failed = 0
for (const job of jobs) if (!(await run(job))) failed++
machine.close()
process.exitCode = failed > 0 ? 1 : 0

async function run({ kind, runs, breaks }: Job): Promise<boolean> {
  const began = performance.now()
  const found =
    breaks === undefined
      ? await search(kind, runs, seed)
      : await search(kind, runs, seed, ({ violations }) =>
          violations.some(({ rule }) => breaks.includes(rule)),
        )
  const took = ((performance.now() - began) / 1000).toFixed(1)
  const ok = (found.plan === undefined) === (breaks === undefined)
  const what =
    found.plan === undefined
      ? `nothing found${tellCaching(found.caching)}${tellAdmitted(found)}`
      : `found out, ${JSON.stringify(found.plan).length} characters of plan`
  console.log(
    `${ok ? 'ok ' : 'BAD'} ${kind.name.padEnd(60)} ${found.runs.toLocaleString('en').padStart(9)} schedules ${took.padStart(7)} s  ${what}`,
  )
  if (!ok && found.plan !== undefined) console.log(await tell(found.plan, kind))
  return ok
}

function tellCaching({ reused, gaveWay, askedAgain }: Caching): string {
  if (reused === 0) return ''
  return `; kept locks used again ${reused} times, given to others ${gaveWay} times, ${askedAgain} of them to single attempts`
}

function tellAdmitted({ admitted }: Found): string {
  return admitted === 0 ? '' : `; ${admitted} times what its page admits`
}

function soundStores(machine: Machine): Job[] {
  return [
    { kind: memoryStore, runs: runs ?? 200_000 },
    { kind: tableStore(), runs: runs ?? 70_000 },
    { kind: mintingStore(), runs: runs ?? 30_000 },
    { kind: redisStore(machine), runs: runs ?? 10_000 },
    { kind: redisStore(machine, undefined, false), runs: runs ?? 2_000 },
  ]
}

function brokenStores(machine: Machine): Job[] {
  return [
    ...mistakes.map((mistake) => ({
      kind: tableStore(mistake),
      runs: runs ?? 10_000,
      breaks: mistake().breaks,
    })),
    ...mintingMistakes.map((mistake) => ({
      kind: mintingStore(mistake),
      runs: runs ?? 10_000,
      breaks: mistake().breaks,
    })),
    ...scriptMistakes.map((mistake) => ({
      kind: redisStore(machine, mistake),
      runs: runs ?? 10_000,
      breaks: mistake.breaks,
    })),
  ]
}

function whole(option: string, value: string | undefined): number | undefined {
  if (value === undefined) return undefined
  if (!/^\d{1,9}$/.test(value)) stop(`${option} takes a whole number, got '${value}'`)
  return Number(value)
}

function stop(message: string): never {
  console.error(message)
  process.exit(2)
}
