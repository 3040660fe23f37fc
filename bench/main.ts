// Measures, and prints Markdown.
//
//   npm run bench                     all suites
//   npm run bench -- memory local     some of them
//   npm run bench -- --quick          a rough look in a fraction of the time
//   npm run bench -- --save           also writes bench/results/<date>.md and .json
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { machine } from './machine.js'
import { json, markdown, type Report } from './report.js'
import { full, quick } from './suite.js'
import { isSuite, suites } from './suites.js'

const { values, positionals } = parseArgs({
  options: { quick: { type: 'boolean' }, save: { type: 'boolean' } },
  allowPositionals: true,
})
const unknown = positionals.find((word) => !isSuite(word))
if (unknown !== undefined) {
  console.error(`unknown suite '${unknown}'; there are ${Object.keys(suites).join(', ')}`)
  process.exit(1)
}
const chosen = positionals.length === 0 ? Object.keys(suites) : positionals
const about = machine({})
const results = []
for (const name of chosen.filter(isSuite)) {
  console.error(`measuring ${name} …`)
  results.push(...(await suites[name](values.quick === true ? quick : full)))
}
const report: Report = { machine: about, results }
process.stdout.write(markdown(report))
if (values.save === true) save(report)
// Some of the compared libraries leave connections open for ever.
process.exit()

function save(report: Report): void {
  const folder = fileURLToPath(new URL('../../bench/results', import.meta.url))
  mkdirSync(folder, { recursive: true })
  const path = join(folder, report.machine.date)
  writeFileSync(`${path}.md`, markdown(report))
  writeFileSync(`${path}.json`, json(report))
  console.error(`written: bench/results/${report.machine.date}.md and .json`)
}
