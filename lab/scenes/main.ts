/**
 * Plays scenes on real servers, which it starts and stops by itself: `npm run lab`; some of them: `npm run lab -- restart long-pause`;
 * with pictures: `npm run lab -- --svg FOLDER`. Ends with 0 only if every failure was seen and holdfast stood.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { renderSvg, renderText } from 'holdfast/verify'
import { asTold, type Played, play, scenes, type Take } from './play.js'
import type { Scene } from './scene.js'

/** Scenes mostly wait; playing a few at a time takes the waiting together. */
const atOnce = 3

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { svg: { type: 'string' }, list: { type: 'boolean' } },
})
const unknown = positionals.filter((word) => !scenes.some(({ name }) => name === word))
if (unknown.length > 0) {
  const names = scenes.map(({ name }) => name).join(', ')
  console.error(`no scene is called ${unknown.join(' or ')}; there are: ${names}`)
  // As `holdfast` ends for input that makes no sense.
  process.exit(64)
}
if (values.list === true) {
  for (const { name, title } of scenes) console.log(`${name.padEnd(18)}${title}`)
  process.exit(0)
}

const wanted = scenes.filter(({ name }) => positionals.length === 0 || positionals.includes(name))
const all: Played[] = []
for await (const played of inOrder(wanted)) {
  tell(played)
  if (values.svg !== undefined) draw(values.svg, played)
  all.push(played)
}
const seen = all.filter(asTold).length
console.log(`\n${seen} of ${all.length}: the failure was seen, and holdfast stood`)
process.exitCode = seen === all.length ? 0 : 1

async function* inOrder(list: readonly Scene[]): AsyncGenerator<Played> {
  const playing: Promise<Played>[] = []
  const rest = [...list]
  while (rest.length + playing.length > 0) {
    for (const scene of rest.splice(0, atOnce - playing.length)) playing.push(play(scene))
    yield await (playing.shift() as Promise<Played>)
  }
}

function tell({ scene, naive, holdfast }: Played): void {
  const { name, title, story, holdfastDoes, page } = scene
  console.log(`\n${'─'.repeat(78)}\n${title} (${name})\n\n${story}\n`)
  show(scene.naive.title, naive)
  show(scene.holdfast.title, holdfast)
  console.log(`${holdfastDoes}\nMore: docs/${page}`)
}

function show(title: string, { outcome, timeline }: Take): void {
  const { columns, isTTY } = process.stdout
  const picture = renderText(timeline, { width: Math.min(columns ?? 100, 120), color: isTTY === true })
  console.log(`${outcome.ok ? '✓' : '✗'} ${title}: ${outcome.saw}\n\n${indented(picture)}\n`)
}

function indented(text: string): string {
  return text.replace(/^(?=.)/gm, '    ')
}

function draw(folder: string, { scene, naive, holdfast }: Played): void {
  mkdirSync(folder, { recursive: true })
  for (const [way, { timeline }] of Object.entries({ naive, holdfast })) {
    writeFileSync(join(folder, `${scene.name}-${way}.svg`), renderSvg(timeline))
  }
}
