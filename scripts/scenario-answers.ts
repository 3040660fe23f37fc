// Plays the scenario of the conformance suite and writes what is answered where a driver declares no difference:
// src/conformance/scenario/answers.ts, which every driver is compared with. Needs no server.
//
//   node build/scripts/scenario-answers.js            tells whether what is written there is what is answered
//   node build/scripts/scenario-answers.js --write    writes it; read what git says has changed, then build again
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Fixture, inProcess } from '../src/conformance/index.js'
import { print, promises } from '../src/conformance/scenario/column.js'
import { declaredBy } from '../src/conformance/scenario/differences.js'
import type { Answer } from '../src/conformance/scenario/story.js'
import { collectAnswers } from '../src/conformance/scenario.js'
import type { DriverFactory } from '../src/core/driver.js'
import { systemEnv } from '../src/core/engine.js'
import { local } from '../src/drivers/local/index.js'
import { memory } from '../src/drivers/memory/index.js'

const file = fileURLToPath(new URL('../../src/conformance/scenario/answers.ts', import.meta.url))
const begin = 'export const transcript: string = `\n'
const end = '\n`\n'

/** What `memory` declares to be different is taken from `local`, which sees other processes. */
async function transcript(directory: string): Promise<string> {
  const store = memory()
  const options = { directory }
  const childClient = {
    module: import.meta.resolve('../src/drivers/local/index.js'),
    export: 'local',
    args: [options],
  }
  const fixtures = [
    createFixture('memory', () => store),
    createFixture('local', () => local(options), { childClient }),
  ]
  const told = new Map<string, readonly Answer[]>()
  for (const fixture of fixtures) {
    const declared = await listDifferences(fixture)
    for (const [promise, answers] of await collectAnswers(fixture))
      if (!told.has(promise) && declared.every((difference) => difference.promise !== promise))
        told.set(promise, answers)
  }
  const ordered = new Map(promises.map((promise) => [promise, told.get(promise) ?? []]))
  const missing = promises.filter((promise) => ordered.get(promise)?.length === 0)
  if (missing.length > 0) throw new Error(`neither memory nor local keeps in full: ${missing.join('; ')}`)
  return print(ordered)
}

function createFixture(name: string, open: () => DriverFactory, more: Partial<Fixture> = {}): Fixture {
  const { traits } = open()(systemEnv())
  return { name, traits, reportsLoss: true, ...inProcess(open), ...more }
}

async function listDifferences(fixture: Fixture) {
  const driver = fixture.make()(systemEnv())
  await driver.close()
  return declaredBy(driver, fixture)
}

const folder = mkdtempSync(join(tmpdir(), 'holdfast-scenario-'))
try {
  const source = readFileSync(file, 'utf8')
  const [head = ''] = source.split(begin)
  const escaped = (await transcript(folder)).replace(/[\\`$]/g, '\\$&')
  const should = head + begin + escaped + end
  if (process.argv.includes('--write')) writeFileSync(file, should)
  else if (source !== should) {
    console.error(`${file} is not what the scenario is answered; run this with --write and build`)
    process.exitCode = 1
  }
} finally {
  rmSync(folder, { recursive: true, force: true })
}
