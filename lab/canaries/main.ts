/**
 * Runs deliberately broken locks in the fault lab: each must be caught, or the lab is blind.
 *
 *   npm run canaries                     all of them, two at a time
 *   npm run canaries -- redlock zombie   those with one of the words in their names
 *   npm run canaries -- --seed 3
 *   npm run canaries -- --list
 *
 * Exits with 1 if one is not caught within its budget.
 */
import { parseArgs } from 'node:util'
import { canaries } from './mistakes.js'
import { tryCanary } from './run.js'

const { values, positionals: words } = parseArgs({
  allowPositionals: true,
  options: { seed: { type: 'string', default: '1' }, list: { type: 'boolean', default: false } },
})

async function main(): Promise<void> {
  const names = Object.keys(canaries).filter(
    (name) => words.length === 0 || words.some((word) => name.includes(word)),
  )
  if (names.length === 0)
    throw new RangeError(`no canary has ${words.map((word) => `'${word}'`).join(' or ')} in its name`)
  if (values.list) {
    for (const name of names) console.log(`${name.padEnd(32)} ${canaries[name]?.mistake}`)
    return
  }
  const left = [...names]
  let caught = 0
  const lane = async () => {
    for (let name = left.shift(); name !== undefined; name = left.shift()) {
      const result = await tryCanary(name, Number(values.seed))
      const { took, faults, granted } = result
      if (result.caught !== undefined) caught++
      const verdict = result.caught === undefined ? 'NOT CAUGHT' : `caught by ${result.caught.rule}`
      console.log(
        `${name.padEnd(32)} ${verdict.padEnd(22)} ${took.toFixed(1).padStart(5)} s, ${faults} faults planned, ${granted} granted`,
      )
    }
  }
  await Promise.all([lane(), lane()])
  console.log(`${caught}/${names.length} caught`)
  if (caught < names.length) process.exitCode = 1
}

main().catch((error: unknown) => {
  console.error(`canaries: ${error instanceof Error ? error.message : error}`)
  process.exitCode = 1
})
