/**
 * A storm: processes that contend for few names in a database.
 *
 *   npm run storm -- postgres                 16 processes for 60 s
 *   npm run storm -- all --seconds 20 --processes 8
 *
 * Exits with 1 if an error reached a user or an update was lost.
 */
import { parseArgs } from 'node:util'
import { storm } from './run.js'
import { stores } from './store.js'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    seconds: { type: 'string', default: '60' },
    processes: { type: 'string', default: '16' },
  },
})

async function main(): Promise<void> {
  const [asked = ''] = positionals
  const wanted = stores.filter((name) => asked === 'all' || name === asked)
  if (wanted.length === 0) throw new RangeError(`name a store: ${stores.join(', ')}, or all; got '${asked}'`)
  const [seconds, processes] = [Number(values.seconds), Number(values.processes)]
  if (!(seconds > 0 && processes > 0)) throw new RangeError('--seconds and --processes take numbers above 0')
  for (const name of wanted) {
    const told = await storm(name, seconds, processes)
    const { version, acquisitions, least, most, deadlocks, errors, lostUpdates } = told
    const bad = Object.keys(errors).length > 0 || lostUpdates !== 0
    console.log(
      `${version}: ${processes} processes for ${seconds} s: ${acquisitions} acquisitions (${least} to ${most} each), ${deadlocks} deadlocks in the server, errors that reached a user: ${JSON.stringify(errors)}, ${lostUpdates} lost updates`,
    )
    if (bad) process.exitCode = 1
  }
}

main().catch((error: unknown) => {
  console.error(`storm: ${error instanceof Error ? error.message : error}`)
  process.exitCode = 1
})
