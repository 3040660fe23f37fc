/**
 * Climbs the ladder on real servers, which it starts and stops by itself: `npm run ladder`; some of it: `npm run ladder -- crash herd`.
 * Ends with 0 only if every failure was really seen and everything that should stand stood.
 *
 * The servers and cables are those of this repository's tests; of holdfast it uses what everybody can import.
 */
import { type Act, asTold, ladder, type Played, play } from './ladder.js'
import type { Outcome, Recipe } from './lock.js'

/** Scenes mostly wait; playing a few at a time takes the waiting together. */
const atOnce = 3

const words = process.argv.slice(2)
const acts = ladder.filter(
  ({ scene }) => words.length === 0 || words.some((word) => scene.name.includes(word)),
)
if (acts.length === 0) {
  const names = new Set(ladder.map(({ scene }) => scene.name))
  console.error(`no scene is called ${words.join(' or ')}; there are: ${[...names].join(', ')}`)
  process.exit(2)
}

const all: Played[] = []
for await (const [act, played] of inOrder(acts)) {
  const { rung, scene, naive, above, holdfast } = act
  console.log(`\nRung ${rung} · ${scene.name}\n  ${scene.fault}`)
  tell(naive, played.naive)
  tell(above, played.above)
  tell(holdfast, played.holdfast)
  all.push(played)
}

const columns = (...cells: readonly string[]) =>
  cells
    .map((cell) => cell.padEnd(20))
    .join('')
    .trimEnd()
console.log(`\n${columns('scene', 'the rung', 'the rung above', 'holdfast')}`)
for (const { name, naive, above, holdfast } of all) {
  console.log(columns(name, mark(naive), above ? mark(above) : 'holdfast', mark(holdfast)))
}
const seen = all.filter(asTold).length
console.log(`\n${seen} of ${all.length}: the failure was seen, and what should stand stood`)
process.exitCode = seen === all.length ? 0 : 1

async function* inOrder(acts: readonly Act[]): AsyncGenerator<readonly [Act, Played]> {
  const playing: (readonly [Act, Promise<Played>])[] = []
  const rest = [...acts]
  while (rest.length + playing.length > 0) {
    for (const act of rest.splice(0, atOnce - playing.length)) playing.push([act, play(act)])
    const [act, played] = playing.shift() as (typeof playing)[0]
    yield [act, await played]
  }
}

function tell(recipe: Recipe | undefined, outcome: Outcome | undefined): void {
  if (recipe && outcome) console.log(`  ${mark(outcome)} ${recipe.title.padEnd(34)}${outcome.saw}`)
}

function mark({ ok }: Outcome): string {
  return ok ? '✓' : '✗'
}
