/**
 * The long run before a release, which uses the whole machine:
 *
 * - all drivers of the fault lab, one after the other, repeatedly, each time with a new seed;
 * - in parallel, the fast drivers at full speed, with the same faults and checkers, until there are enough acquisitions;
 * - then every canary;
 * - all the time, on idle processors, and at the end on all of them: schedules under virtual time.
 *
 *   npm run soak                         up to two hours
 *   npm run soak -- --minutes 10         less of everything
 *   npm run soak -- --share 0.8          runs start in this part of the time (default 0.4); every driver has one in any case
 *   npm run soak -- --only redis,local   only these drivers
 *   npm run soak -- --seed 1000          the first seed; each run has the next one
 *   npm run soak -- --canaries redlock   only canaries with this word in their names
 *   npm run soak -- --simulations 1      how many processes play schedules (default: one for each processor)
 *
 * The result goes to lab/results/<date>.json and .md: seeds, versions, counts, hashes of all histories. Exits with 1 on any violation.
 */
import { readdirSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { setTimeout } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { canaries } from '../canaries/mistakes.js'
import { tryCanary } from '../canaries/run.js'
import { reportLeakedHandles } from '../faults/leaked-handles.js'
import { isBad, machine, missed, type Result, write } from './page.js'
import { Runs } from './runs.js'
import { playSchedules } from './schedules.js'

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '115' },
    share: { type: 'string', default: '0.4' },
    seed: { type: 'string', default: `${Math.floor(Date.now() / 1000)}` },
    only: { type: 'string' },
    canaries: { type: 'string' },
    simulations: { type: 'string', default: `${availableParallelism()}` },
    out: { type: 'string', default: 'lab/results' },
  },
})

/** Seconds of faults in one run. */
const sliceTime = 60
/** How many acquisitions a run at full speed makes: a history that is judged at once, in memory. */
const fullSpeed: readonly (readonly [driver: string, acquisitions: number])[] = [
  ['memory', 200_000],
  ['local', 60_000],
  ['memory', 200_000],
  ['redis', 40_000],
  ['memory', 200_000],
  ['redlock', 20_000],
]

/** With more of them, the slower drivers would not get enough time. */
const enough = 3_500_000

const wanted = (name: string) => values.only === undefined || values.only.split(',').includes(name)
const drivers = readdirSync(new URL('../faults/drivers/', import.meta.url))
  .filter((file) => file.endsWith('.js'))
  .map((file) => file.slice(0, -'.js'.length))
  .filter(wanted)

async function main(): Promise<void> {
  const minutes = parseNumber('minutes', 0.1)
  if (drivers.length === 0) throw new RangeError(`--only ${values.only}: no driver of the lab is called so`)
  const began = performance.now()
  /** The share of the whole time in which runs are started; most schedules are played after them and the canaries. */
  const share = parseNumber('share', 0)
  let seed = parseNumber('seed', 0)
  const runs = new Runs()
  const schedules = playSchedules(parseNumber('simulations', 0), seed)
  const left = (part: number) => began + minutes * 60_000 * part - performance.now()
  const inTime = () => left(share) > 0
  const seconds = Math.min(sliceTime, Math.ceil(12 * minutes))
  await Promise.all([
    inTurn(
      drivers,
      (turn) => turn < drivers.length || inTime(),
      (name) => runs.one(name, { driver: name, seed: seed++, seconds }),
    ),
    inTurn(
      fullSpeed.filter(([name]) => wanted(name)),
      () => inTime() && runs.acquisitions < enough,
      ([driver, acquisitions]) =>
        runs.one(`${driver}, at full speed`, { driver, seed: seed++, seconds: 10, acquisitions }),
    ),
  ])
  const caught: Record<string, string> = {}
  const birds = Object.keys(canaries).filter((name) => name.includes(values.canaries ?? ''))
  const cage = async () => {
    for (let name = birds.shift(); name !== undefined; name = birds.shift())
      caught[name] = (await tryCanary(name, seed++)).caught?.rule ?? missed
  }
  await Promise.all([cage(), cage()])
  await setTimeout(Math.max(0, left(1)))
  const simulation = await schedules.end()
  const hours = (performance.now() - began) / 3_600_000
  const at = new Date().toISOString()
  const { rows, reports } = runs
  const result: Result = { at, hours, ...machine(), rows, simulation, canaries: caught, runs: reports }
  write(result, values.out)
  if (isBad(result)) process.exitCode = 1
}

async function inTurn<T>(
  list: readonly T[],
  goesOn: (turn: number) => boolean,
  act: (one: T) => Promise<void>,
): Promise<void> {
  for (let turn = 0; list.length > 0 && goesOn(turn); turn++) await act(list[turn % list.length] as T)
}

function parseNumber(name: 'minutes' | 'share' | 'seed' | 'simulations', least: number): number {
  const number = Number(values[name])
  if (Number.isFinite(number) && number >= least) return number
  throw new RangeError(`--${name} ${values[name]}: a number of at least ${least} is needed`)
}

main()
  .catch((error: unknown) => {
    console.error(`soak: ${error instanceof Error ? error.message : error}`)
    process.exitCode = 1
  })
  .finally(reportLeakedHandles)
