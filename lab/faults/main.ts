/**
 * The fault lab: real servers, real processes, real faults.
 *
 *   npm run faults -- redis --seed 7 --seconds 30      one driver
 *   npm run faults -- all                              every driver, in sequence
 *   npm run faults -- redis --only clock,pause         only kinds with these words in them
 *
 *   --seed N       reproduces the plan of faults (default 1); how processes are scheduled is the machine's
 *   --seconds N    of faults (default 30)
 *   --workers N    client processes (default 4)
 *   --ttl MS       of all locks (default 1000)
 *   --rate N       faults begun each second, on average (default 3)
 *   --acquisitions N   continues after the faults until so many were asked for (default 0)
 *   --brisk        no time is spent under quick locks
 *   --out FOLDER   where the report goes (default .lab/<driver>-<seed>)
 *
 * The history goes there, too, if there are any findings. Exits with 1 on any violation, or if a fault could not be injected.
 */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { reportLeakedHandles } from './leaked-handles.js'
import { summarize, writeReport } from './report.js'
import { runLab } from './run.js'

const folder = new URL('./drivers/', import.meta.url)
const labDrivers: readonly string[] = readdirSync(folder)
  .filter((file) => file.endsWith('.js'))
  .map((file) => file.slice(0, -'.js'.length))
  .sort()

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    seed: { type: 'string', default: '1' },
    seconds: { type: 'string', default: '30' },
    workers: { type: 'string', default: '4' },
    ttl: { type: 'string', default: '1000' },
    rate: { type: 'string', default: '3' },
    acquisitions: { type: 'string', default: '0' },
    brisk: { type: 'boolean', default: false },
    only: { type: 'string' },
    out: { type: 'string' },
  },
})

type Count = 'seed' | 'seconds' | 'workers' | 'ttl' | 'rate' | 'acquisitions'

function count(name: Count, least: number): number {
  const given = Number(values[name])
  if (!Number.isFinite(given) || given < least) {
    throw new RangeError(`--${name} ${values[name]}: a number of at least ${least} is needed`)
  }
  return given
}

async function main(): Promise<void> {
  const [asked = ''] = positionals
  const names = asked === 'all' ? labDrivers : labDrivers.filter((name) => name === asked)
  if (names.length === 0)
    throw new RangeError(`name a driver: ${labDrivers.join(', ')}, or all; got '${asked}'`)
  const seed = count('seed', 0)
  for (const name of names) {
    const out = values.out ?? `.lab/${name}-${seed}`
    const result = await runLab({
      name,
      module: new URL(`${name}.js`, folder).href,
      seed,
      seconds: count('seconds', 1),
      workers: count('workers', 1),
      ttl: count('ttl', 100),
      rate: count('rate', 0.1),
      acquisitions: count('acquisitions', 0),
      brisk: values.brisk,
      keep: join(out, 'history'),
      ...(values.only !== undefined && { only: values.only.split(',') }),
    })
    const where = writeReport(result, out)
    const { verdict, faults, granted, violations, excused } = summarize(result)
    const { caching } = result
    const reused = caching === undefined ? '' : `${caching.reused} used again without a request, `
    console.log(
      `${name.padEnd(15)} seed ${seed}: ${verdict}; ${faults} faults, ${granted} acquisitions granted, ${reused}${violations} violations, ${excused} excused (${result.took.toFixed(0)} s, ${where}/report.md)`,
    )
    for (const complaint of result.complaints) console.log(`  ! ${complaint}`)
    if (verdict !== 'no violation') process.exitCode = 1
  }
}

main()
  .catch((error: unknown) => {
    console.error(`faults: ${error instanceof Error ? error.message : error}`)
    process.exitCode = 1
  })
  .finally(reportLeakedHandles)
