// The ladder on real servers: every failure is really seen, every lock that should stand stands, and the page about it
// says what was seen. The commands for people are tried with one short scene.
// Second tier because it starts every kind of server, one rung after the other.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { type Act, asTold, ladder, type Played, play } from '../examples/ladder/ladder.js'
import type { Outcome, Recipe } from '../examples/ladder/lock.js'
import { recipes } from '../examples/ladder/recipes.js'
import { listFiles, read, root } from './support/checkout.js'
import { leakCheck } from './support/leaks.js'

const page = read('docs/ladder.md')
const fails: Outcome = { ok: false, saw: 'it went wrong' }
const stands: Outcome = { ok: true, saw: 'it went well' }

// A scene mostly waits, so a few are played at a time.
describe('the ladder', { concurrency: 3 }, () => {
  for (const act of ladder) {
    const { rung, scene, naive, above, holdfast } = act
    test(`rung ${rung}, ${scene.name}: ${titles(naive)} falls, ${titles(above, holdfast)} stand`, async () => {
      const played = await play(act)
      assert.ok(asTold(played), JSON.stringify(played, undefined, 2))
      assert.deepEqual(untold(act, played), [])
    })
  }
})

function titles(...which: readonly (Recipe | undefined)[]): string {
  return which.flatMap((recipe) => recipe?.title ?? []).join(' and ')
}

/** What was seen and does not stand in the section of its rung, counts aside. */
function untold({ rung }: Act, { naive, above, holdfast }: Played): string[] {
  const section = page.split(/^## /m).find((text) => text.startsWith(`${rung}.`)) ?? ''
  const plain = (text: string) => text.replace(/\s+/g, ' ').replace(/\d+(\.\d+)?/g, '#')
  return [naive, above ?? holdfast, holdfast]
    .map(({ saw }) => saw)
    .filter((saw) => !plain(section).includes(plain(saw)))
}

test('the page links to every file of the ladder that has a scene', () => {
  const rungs = listFiles('examples/ladder', '.ts').filter((path) => /\/\d-/.test(path))
  assert.ok(rungs.length >= 8)
  assert.deepEqual(
    rungs.filter((path) => !page.includes(`(../${path})`)),
    [],
  )
})

test('every rung is short enough to be read in one go', () => {
  const rungs = listFiles('examples/ladder', '.ts').filter((path) => /\/\d-/.test(path))
  const long = rungs.filter((path) => read(path).split('\n').length > 80)
  assert.deepEqual(long, [])
})

test('a failure that did not occur, or a lock that failed unexpectedly, is not as expected', () => {
  const played = (naive: Outcome, above: Outcome | undefined, holdfast: Outcome) => ({
    name: 'scene',
    naive,
    ...(above && { above }),
    holdfast,
  })
  assert.equal(asTold(played(fails, stands, stands)), true)
  assert.equal(asTold(played(fails, undefined, stands)), true)
  assert.equal(asTold(played(stands, stands, stands)), false)
  assert.equal(asTold(played(fails, fails, stands)), false)
  assert.equal(asTold(played(fails, stands, fails)), false)
})

test('every lock has a name of its own: a child process finds it by that', () => {
  assert.equal(new Set(recipes.map(({ title }) => title)).size, recipes.length)
  const used = ladder.flatMap(({ naive, above, holdfast }) => [naive, above ?? naive, holdfast])
  assert.ok(used.every((recipe) => recipes.includes(recipe)))
})

test('on the command line it tells the story of a scene, and ends with 0 when all went as told', () => {
  const { status, stdout, stderr } = run('lost reply')
  assert.equal(status, 0, stderr)
  assert.match(stdout, /Rung 6 · lost reply/)
  assert.match(stdout, /✗ publish +told that it is taken/)
  assert.match(stdout, /✓ holdfast\/redis +told that it has it/)
  assert.match(stdout, /1 of 1/)
})

test('on the command line an unknown scene is named, with those that there are', () => {
  const { status, stderr } = run('no such scene')
  assert.equal(status, 2)
  assert.match(stderr, /no scene is called no such scene; there are: crash, /)
})

function run(...words: readonly string[]) {
  const main = join(root, 'build/examples/ladder/main.js')
  return spawnSync(process.execPath, ['--enable-source-maps', main, ...words], {
    encoding: 'utf8',
    timeout: 60_000,
    killSignal: 'SIGKILL',
  })
}

after(leakCheck)
