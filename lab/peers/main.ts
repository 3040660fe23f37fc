/**
 * Runs public npm locks in the fault lab, and shows the faults and the observations. Nothing is judged.
 *
 *   npm run peers                        all, one after the other, and holdfast/redis in the same way
 *   npm run peers -- redlock verrou      those with one of the words in their names
 *   npm run peers -- --seed 3 --seconds 30 --ttl 500
 *
 * "Two at once": how often a lock was granted while another client, according to its own library, still held it. The faults include lost
 * server data, which one server cannot compensate: holdfast refuses to grant for a while when it notices.
 */
import { parseArgs } from 'node:util'
import { installPeers } from '../../bench/peer-packages.js'
import { type RunResult, runLab } from '../faults/run.js'
import { libraries } from './libraries.js'

const { values, positionals: words } = parseArgs({
  allowPositionals: true,
  options: {
    seed: { type: 'string', default: '1' },
    seconds: { type: 'string', default: '20' },
    ttl: { type: 'string', default: '500' },
  },
})

const ours = 'holdfast/redis'
const modulePath = (name: string): string =>
  name === ours
    ? new URL('../faults/drivers/redis.js', import.meta.url).href
    : `${new URL('./driver.js', import.meta.url).href}?${name}`

async function main(): Promise<void> {
  const numbers = { seed: Number(values.seed), seconds: Number(values.seconds), ttl: Number(values.ttl) }
  for (const [name, value] of Object.entries(numbers))
    if (!(value >= 1)) throw new RangeError(`--${name}: a number of at least 1 is needed, got ${value}`)
  const known = [...Object.keys(libraries), ours]
  const chosen = known.filter((name) => words.length === 0 || words.some((word) => name.includes(word)))
  if (chosen.length === 0)
    throw new RangeError(
      `no library has '${words.join("' or '")}' in its name; there are: ${known.join(', ')}`,
    )
  installPeers()
  for (const name of chosen) {
    const result = await runLab({ name, module: modulePath(name), rate: 4, ...numbers })
    console.log(describeResult(result, libraries[name]?.believes))
  }
}

function describeResult(result: RunResult, believes = 'until its deadline'): string {
  const { name, versions, seed, faults, counts, violations, excused, complaints } = result
  const of = (rule: string) =>
    [...violations, ...excused.map(({ violation }) => violation)].filter((one) => one.rule === rule).length
  const injected = Object.entries(faults).map(([kind, times]) => `${times} × ${kind}`)
  return [
    `${name} ${versions[name] ?? ''} (seed ${seed}; holds ${believes})`,
    `  injected: ${injected.join(', ')}`,
    `  seen: ${counts.granted} granted, ${counts.lost} told lost, ${of('exclusion')} two at once, ${of('liveness')} not served after all was over`,
    ...complaints.map((complaint) => `  the run itself: ${complaint}`),
  ].join('\n')
}

main().catch((error: unknown) => {
  console.error(`peers: ${error instanceof Error ? error.message : error}`)
  process.exitCode = 1
})
