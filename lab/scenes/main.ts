/**
 * Plays scenes on real servers, which it starts and stops by itself: `npm run lab`; some of them: `npm run lab -- restart long-pause`;
 * with pictures: `npm run lab -- --svg FOLDER`. Exits with 0 only if every failure occurred and holdfast stood.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { renderSvg, renderText } from 'holdfast/verify'
import { asExpected, runScene, type SceneResult, scenes, type Take } from './run-scene.js'
import type { Scene } from './scene.js'
import { recipes, Servers } from './servers.js'

/** Scenes mostly wait, so a few are played at a time. */
const atOnce = 3

/** The exit codes of `holdfast` for bad input and for unavailable servers. */
const [unusable, unavailable] = [64, 69]

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { svg: { type: 'string' }, list: { type: 'boolean' } },
})
const unknown = positionals.filter((word) => !scenes.some(({ name }) => name === word))
if (unknown.length > 0) {
  const names = scenes.map(({ name }) => name).join(', ')
  console.error(`no scene is called ${unknown.join(' or ')}; there are: ${names}`)
  process.exit(unusable)
}
if (values.list === true) {
  for (const { name, store, title } of scenes) console.log(`${name.padEnd(23)}${store.padEnd(11)}${title}`)
  console.log(`\n${howToGetServers(scenes)}`)
  process.exit(0)
}

const wanted = scenes.filter(({ name }) => positionals.length === 0 || positionals.includes(name))
const servers = new Servers()
const all: SceneResult[] = []
const broken: Scene[] = []
for await (const { scene, played, error } of inOrder(wanted)) {
  if (played === undefined) {
    broken.push(scene)
    console.error(`\n${scene.name} could not be played: ${(error as Error).message}`)
    continue
  }
  tell(played)
  if (values.svg !== undefined) draw(values.svg, played)
  all.push(played)
}
await servers[Symbol.asyncDispose]()
const seen = all.filter(asExpected).length
console.log(`\n${seen} of ${wanted.length}: the failure was seen, and holdfast stood`)
if (broken.length > 0) console.error(`\n${howToGetServers(broken)}`)
process.exitCode = seen === all.length ? (broken.length > 0 ? unavailable : 0) : 1

interface Tried {
  readonly scene: Scene
  readonly played?: SceneResult
  readonly error?: unknown
}

async function* inOrder(list: readonly Scene[]): AsyncGenerator<Tried> {
  const playing: Promise<Tried>[] = []
  const rest = [...list]
  const begin = (scene: Scene): Promise<Tried> =>
    runScene(scene, servers).then(
      (played) => ({ scene, played }),
      (error: unknown) => ({ scene, error }),
    )
  while (rest.length + playing.length > 0) {
    for (const scene of rest.splice(0, atOnce - playing.length)) playing.push(begin(scene))
    yield await (playing.shift() as Promise<Tried>)
  }
}

function howToGetServers(of: readonly Scene[]): string {
  const names = [...new Set(of.flatMap(({ store }) => recipes[store]))].join(' ')
  return [
    'The servers are the project’s own copies, started on free ports and stopped at the end; none of yours is touched.',
    'They are fetched at first use, from Debian packages and without root. To fetch them now, or to see why that fails:',
    `  scripts/servers/fetch.sh ${names}`,
  ].join('\n')
}

function tell({ scene, naive, holdfast }: SceneResult): void {
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

function draw(folder: string, { scene, naive, holdfast }: SceneResult): void {
  mkdirSync(folder, { recursive: true })
  for (const [way, { timeline }] of Object.entries({ naive, holdfast })) {
    writeFileSync(join(folder, `${scene.name}-${way}.svg`), renderSvg(timeline))
  }
}
